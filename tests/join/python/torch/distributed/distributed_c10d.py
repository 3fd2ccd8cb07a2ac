"""A stand-in for what PyTorch has there to make its timeouts longer, once."""

added = []


def _add_ephemeral_timeout_for_all_pgs(timeout):
    added.append(timeout.total_seconds())
