"""A trial as it is written for NNI: it asks for parameters, and reports how far it came."""

import nni


def descend(lr: float, momentum: float, decay: str, steps: int = 20):
    """How far from the lowest point of a bowl each step ends."""
    x, speed = 4.0, 0.0
    for step in range(steps):
        rate = lr * (1 - step / steps) if decay == "linear" else lr
        speed = momentum * speed - rate * x
        x += speed
        yield min(abs(x), 1e6)


if __name__ == "__main__":
    params = nni.get_next_parameter()
    loss = 4.0
    for loss in descend(**params):
        nni.report_intermediate_result(loss)
    print(f"{params} ended at {loss:.6f}")
    nni.report_final_result({"default": loss, "steps": 20})
