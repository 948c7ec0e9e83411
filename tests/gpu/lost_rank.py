"""A training of several ranks that loses one of them on the way."""

import json
import os
import signal
import time

from processes import family

HELD_S = 15  # how much later than comm.timeout_s a run may end


def lose_rank(part, target, name, config, settings, number):
    """Sends the last rank a signal at its first step. Returns what is wrong, the seconds that the
    run took to end, and what it said."""
    command = target.training_command([config], name, {**settings, "run.steps": 100_000})
    programs, sent = [], []  # process ids; when

    def send_at_step(line):
        if sent or not line.startswith("{") or json.loads(line).get("event") != "step":
            return
        ranks = family(programs[0])[1:]
        if len(ranks) > 1:
            os.kill(ranks[-1], number)
            sent.append(time.monotonic())

    begin = time.monotonic()
    limit = max(part.left() - 1, 0.1)  # a second, to say what was missed
    ended = target.run(part, command, each_line=send_at_step, limit_s=limit,
                       started=programs.append)
    seconds = time.monotonic() - (sent[0] if sent else begin)
    problem = ""
    if not sent:
        problem = f"no step of two ranks in {seconds:.0f} s: {ended.why()}"
    elif ended.code == -signal.SIGKILL or seconds > settings["comm.timeout_s"] + HELD_S:
        problem = f"not all had ended {seconds:.0f} s later"
    return problem, round(seconds, 1), ended
