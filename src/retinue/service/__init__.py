"""The one API of the system. Every door calls it; it is the only way in."""

from __future__ import annotations

from retinue.core.thread import ThreadMessage as ThreadMessage
from retinue.engine.explain import Because as Because
from retinue.engine.explain import Explanation as Explanation
from retinue.engine.explain import Journal as Journal
from retinue.engine.explain import Life as Life
from retinue.engine.explain import WorkerView as WorkerView
from retinue.engine.follow import Followed as Followed
from retinue.engine.submit import Request as Request
from retinue.ports.store import OnBusy as OnBusy
from retinue.ports.store import Pruned as Pruned
from retinue.ports.store import RunRow as RunRow
from retinue.ports.store import Stats as Stats
from retinue.ports.store import ThreadRow as ThreadRow
from retinue.ports.store import TicketRow as TicketRow
from retinue.service.models import ModelSeen as ModelSeen
from retinue.service.runs import Service as Service
from retinue.service.threads import Answering as Answering
from retinue.service.threads import Said as Said
from retinue.service.threads import Say as Say
from retinue.service.threads import Threads as Threads
from retinue.service.threads import parts_of as parts_of
