"""How often a process was killed, and where."""

from collections import Counter

TIMED = "at a random moment"
ANYWHERE = "at the nth failpoint"


class Tally:
    def __init__(self, wanted):
        self._wanted = wanted
        self._kills = Counter()
        self.lives = 0  # state directories that reached the end of the story
        self.checks = 0  # comparisons with the oracle

    @property
    def left(self):
        return self._wanted - self._kills.total()

    def kill(self, where):
        self._kills[where] += 1

    def places(self):
        return set(self._kills)

    def show(self, what, seconds):
        print(f"{what}: {self._kills.total()} kills in {seconds:.0f} s; {self.lives} stories told to their end,")
        print(f"  {self.checks} comparisons with the oracle: nothing lost, nothing twice")
        for where, count in sorted(self._kills.items()):
            print(f"    {count:4} {where}")
