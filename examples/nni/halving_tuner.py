"""A tuner as it is written for NNI: it looks around the best it knows, more and more closely."""

import math
import random

from nni.tuner import Tuner


class HalvingTuner(Tuner):
    def __init__(self, optimize_mode="maximize", seed=None):
        self.sign = 1 if optimize_mode == "minimize" else -1
        self.random = random.Random(seed)
        self.best = None
        self.width = 1.0

    def update_search_space(self, search_space):
        self.space = search_space

    def generate_parameters(self, parameter_id, **kwargs):
        return {name: self.draw(name, **each) for name, each in self.space.items()}

    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        loss = self.sign * (value["default"] if isinstance(value, dict) else value)
        if self.best is None or loss < self.best[0]:
            self.best = (loss, parameters)
            self.width /= 2

    def draw(self, name, _type, _value):
        known = None if self.best is None else self.best[1][name]
        if _type == "choice":
            return self.random.choice(_value) if known is None or self.random.random() < self.width else known
        low, high = (math.log(each) for each in _value) if _type == "loguniform" else _value
        middle = self.random.uniform(low, high)
        if known is not None:
            near = math.log(known) if _type == "loguniform" else known
            middle = near + self.width * (middle - near)
        return math.exp(middle) if _type == "loguniform" else middle
