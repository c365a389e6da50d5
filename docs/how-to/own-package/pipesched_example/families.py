"""A schedule: 1F1B with one forward more ahead."""

import pipesched


@pipesched.family("one-ahead", placement="linear", bubble="(P-1)/(M+P-1)", memory="min(M, P-d+1)", settled_order=True)
def one_ahead(problem: pipesched.Problem) -> list[list[str]]:
    """1F1B with one forward more ahead of the first backward."""
    orders = []
    for device in range(problem.devices):
        warm_up = min(problem.devices - device, problem.microbatches)
        order = [f"{device}F{m}" for m in range(warm_up)]
        for m in range(problem.microbatches):
            if m + warm_up < problem.microbatches:
                order.append(f"{device}F{m + warm_up}")
            order.append(f"{device}B{m}")
        orders.append(order)
    return orders
