"""A stand-in for PyTorch's Join, in a file of the same name: ranks in their loop and ranks that are out of data call the same collectives."""


class Join:
    def __init__(self, collectives, shadow, throw):
        self.collectives, self.shadow, self.throw, self.rounds = collectives, shadow, throw, 0

    def notify(self):
        """In each iteration."""
        self.collectives.all_reduce([1.0])
        if self.throw and self.collectives.all_reduce([0.0])[0] != 0:
            raise RuntimeError("somebody is out of data")

    def leave(self):
        """After the loop: until nobody is in it any more."""
        while self.collectives.all_reduce([0.0])[0] != 0:
            self.rounds += 1
            if self.throw:
                self.collectives.all_reduce([1.0])
                raise RuntimeError("out of data")
            self.shadow()
