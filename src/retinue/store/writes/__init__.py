"""What each write does, in SQL that both databases take.

Writes of one kind are executed together. Each begins with the statement that decides whether it may be
done at all; what follows cannot fail, so a refused write leaves nothing behind and the others go on.
"""
