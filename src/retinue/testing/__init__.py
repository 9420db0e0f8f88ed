"""What tests of agents need: a clock that is set by hand."""
