"""For each check of the kit a provider that breaks this one promise; the first line of each says how."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.contract.heavy import Heavy
from tests.contract.yard import Order, Refused, YardProvider, YardRuns
from turnout.plugin.provider import Failure, Finding, Handle, Launch, Observation, Phase

Seen = dict[Handle, Observation]
Answers = list[Handle | Failure]
_GONE = Observation(Phase.GONE)


class ReadsAtOnce(YardProvider):
    def __init__(self, settings: Mapping[str, object]) -> None:
        super().__init__(settings)
        os.listdir(self.root)


class ThreadAtOnce(YardProvider):
    def __init__(self, settings: Mapping[str, object]) -> None:
        super().__init__(settings)
        threading.Thread(target=int).start()


class OddCapabilities(YardProvider):
    capabilities = replace(YardProvider.capabilities, launches="pods")


class NeedsAKey(YardProvider):
    @dataclass(frozen=True)
    class Settings:
        queue: str


class Undocumented(YardProvider):
    @dataclass(frozen=True)
    class Settings:
        queue: str = ""


class NoJson(YardProvider):
    @dataclass(frozen=True)
    class Settings:
        queues: Any = field(default=frozenset({"main"}), metadata={"doc": "Queues."})


class LooksForSeats(YardProvider):
    def seats(self) -> Sequence[str]:
        return os.listdir(self.root)[:0]


class StartsTwice(YardProvider):
    def hand_over(self, orders: Sequence[Order]) -> list[Handle]:
        return [super(StartsTwice, self).hand_over([each])[0] for order in orders for each in (order, order)][::2]


class CutsTheOrder(YardProvider):
    def order(self, launch: Launch) -> Order:
        order = super().order(launch)
        return replace(order, stdin=order.stdin.replace(b"\\n", b" "))


class EnvByShell(YardProvider):
    def order(self, launch: Launch) -> Order:
        order = super().order(launch)
        return replace(order, env={name: value.strip() for name, value in order.env.items()})


class ArgvByText(YardProvider):
    def order(self, launch: Launch) -> Order:
        order = super().order(launch)
        head = len(order.argv) - len(launch.argv)
        return replace(order, argv=[*order.argv[:head], *" ".join(launch.argv).split(" ")])


class RunsInPlace(YardRuns):
    def order(self, launch: Launch) -> Order:
        assert launch.work is not None
        return replace(super().order(launch), cwd=launch.work.files)


class AnyOrder(YardProvider):
    def submit(self, launches: Sequence[Launch]) -> Answers:
        return super().submit(launches)[::-1]


class AllOrNothing(YardProvider):
    def submit(self, launches: Sequence[Launch]) -> Answers:
        wrong = next((each for each in map(self.objection, launches) if each is not None), None)
        return super().submit(launches) if wrong is None else [wrong for _ in launches]


class CallsForNothing(YardProvider):
    def submit(self, launches: Sequence[Launch]) -> Answers:
        self.known()
        return super().submit(launches)


class LinesForHandles(YardProvider):
    def hand_over(self, orders: Sequence[Order]) -> list[Handle]:
        return [f"{handle}\n" for handle in super().hand_over(orders)]


class NeedsAreRejected(YardProvider):
    def objection(self, launch: Launch) -> Failure | None:
        return Failure("no such option", kind="rejected") if launch.need.cpus else super().objection(launch)


class IgnoresNeeds(YardProvider):
    def objection(self, launch: Launch) -> Failure | None:
        return None if launch.need.cpus else super().objection(launch)


class LosesTheSocket(YardProvider):
    def order(self, launch: Launch) -> Order:
        order = super().order(launch)
        return replace(order, stdin=order.stdin.replace(b"agent.sock", b"hub.sock"))


class FindsWhenItRan(YardProvider):
    def find(self, token: str) -> Handle | None:
        handle = super().find(token)
        return handle if handle in getattr(self, "mine", ()) else None


class FindsAnything(YardProvider):
    def find(self, token: str) -> Handle | None:
        return next(iter(self.known()), None)


class FindsBeginnings(YardProvider):
    def find(self, token: str) -> Handle | None:
        return next((handle for handle, (_, _, name) in self.known().items() if name.startswith(token)), None)


class TriesAgain(YardProvider):
    def hand_over(self, orders: Sequence[Order]) -> list[Handle]:
        try:
            return super().hand_over(orders)
        except Failure:
            self.yard.fault = ""
            return super().hand_over(orders)


class LooksForNothing(YardProvider):
    def observe(self, handles: Sequence[Handle]) -> Seen:
        self.known()
        return super().observe(handles)


class RaisesOverUnknown(YardProvider):
    def observe(self, handles: Sequence[Handle]) -> Seen:
        known = self.known()
        return {handle: self.meaning(*known[handle]) for handle in handles}


class UnknownIsAlive(YardProvider):
    def observe(self, handles: Sequence[Handle]) -> Seen:
        return {**dict.fromkeys(handles, Observation(Phase.PENDING)), **super().observe(handles)}


class OneUnknownHidesAll(YardProvider):
    def observe(self, handles: Sequence[Handle]) -> Seen:
        return super().observe(handles) if set(handles) <= set(self.known()) else {}


class TellsOfAll(YardProvider):
    def observe(self, handles: Sequence[Handle]) -> Seen:
        return {handle: self.meaning(*each) for handle, each in self.known().items()} if handles else {}


class GoesBack(YardProvider):
    def observe(self, handles: Sequence[Handle]) -> Seen:
        self.looks = getattr(self, "looks", 0) + 1
        pending = Observation(Phase.PENDING)
        seen = super().observe(handles)
        is_back = self.looks % 3 == 0
        return {each: pending if is_back and seen[each].phase is Phase.ACTIVE else seen[each] for each in seen}


class ActiveForOthers(YardProvider):
    def observe(self, handles: Sequence[Handle]) -> Seen:
        seen = super().observe(handles)
        mine = getattr(self, "mine", ())
        return {each: seen[each] if each in mine else Observation(Phase.ACTIVE) for each in seen}

    def hand_over(self, orders: Sequence[Order]) -> list[Handle]:
        self.mine = super().hand_over(orders)
        return self.mine


class NoExitCodes(YardProvider):
    def meaning(self, state: str, code: int, name: str) -> Observation:
        return replace(super().meaning(state, code, name), exit_code=None)


class ForgetsWithTheYard(YardProvider):
    def end_of(self, handle: Handle) -> Observation | None:
        return None


class GarbageIsGone(YardProvider):
    def observe(self, handles: Sequence[Handle]) -> Seen:
        rows = [line.split() for line in self.yard.status().splitlines()]
        known = {f"yard-{row[0]}": row[1:] for row in rows if len(row) == 4}
        return {each: self.meaning(known[each][0], int(known[each][1]), "") for each in handles if each in known}


class RaisesItsOwn(YardProvider):
    def failure(self, error: Refused) -> Any:
        return error


class AsksOneByOne(YardProvider):
    def observe(self, handles: Sequence[Handle]) -> Seen:
        return {key: value for each in handles for key, value in super(AsksOneByOne, self).observe([each]).items()}


class NeverEnds(YardProvider):
    def cancel(self, handles: Sequence[Handle]) -> None:
        pass


class EndsTheShellOnly(YardProvider):
    def cancel(self, handles: Sequence[Handle]) -> None:
        for handle in handles:
            job = self.yard.jobs.get(int(handle.rpartition("-")[2])) if handle in self.known() else None
            if job is not None and job.process is not None and job.state == "running":
                job.process.send_signal(signal.SIGKILL)
                job.process.wait()


class RaisesWhenGone(YardProvider):
    def cancel(self, handles: Sequence[Handle]) -> None:
        known = self.known()
        if any(each not in known or known[each][0] != "running" for each in handles):
            raise Failure("it does not run")
        super().cancel(handles)


class UnknownMeansAll(YardProvider):
    def cancel(self, handles: Sequence[Handle]) -> None:
        known = self.known()
        super().cancel([each for each in handles if each in known] or list(known))


class StopsAtUnknown(YardProvider):
    def cancel(self, handles: Sequence[Handle]) -> None:
        known = self.known()
        for handle in handles:
            if handle not in known:
                return
            super().cancel([handle])


class CancelledIsWell(YardProvider):
    def meaning(self, state: str, code: int, name: str) -> Observation:
        return super().meaning("ended" if state == "cancelled" else state, 0 if state == "cancelled" else code, name)


class KnowsItsOwnOnly(YardProvider):
    def hand_over(self, orders: Sequence[Order]) -> list[Handle]:
        self.mine = super().hand_over(orders)
        return self.mine

    def observe(self, handles: Sequence[Handle]) -> Seen:
        mine = getattr(self, "mine", ())
        return super().observe([each for each in handles if each in mine])


class ThrowsOutputAway(YardProvider):
    def order(self, launch: Launch) -> Order:
        return replace(super().order(launch), log=os.path.join(self.root, "other.log"))


class NoLimit(YardProvider):
    def order(self, launch: Launch) -> Order:
        return replace(super().order(launch), seconds=None)


class Prints(YardProvider):
    def check(self) -> list[Finding]:
        os.write(1, b"checking\n")
        return super().check()


class LeavesThreads(YardProvider):
    def cancel(self, handles: Sequence[Handle]) -> None:
        super().cancel(handles)
        threading.Timer(5.0, int).start()


class Sleeps(YardProvider):
    def cancel(self, handles: Sequence[Handle]) -> None:
        super().cancel(handles)
        time.sleep(0.01)


class OneThreadOnly(YardProvider):
    def observe(self, handles: Sequence[Handle]) -> Seen:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("objects can only be used in the thread that made them")
        return super().observe(handles)


class NothingToSay(YardProvider):
    def check(self) -> list[Finding]:
        return []


class CheckRaises(YardProvider):
    def check(self) -> list[Finding]:
        self.known()
        return [Finding("ok", "the yard answers")]


class RestsForEver(YardProvider):
    def rest(self) -> None:
        del self.yard


class ClearsOnce(YardProvider):
    def clear(self) -> None:
        os.rmdir(self.root + "/never-there")


class NeverThrottled(YardProvider):
    def failure(self, error: Refused) -> Failure:
        return Failure(str(error), kind="transient" if str(error) == "busy" else super().failure(error).kind)


class NeverLogin(YardProvider):
    def failure(self, error: Refused) -> Failure:
        return Failure(str(error), kind="rejected" if str(error) == "login" else super().failure(error).kind)


class OneByOne(YardProvider):
    def hand_over(self, orders: Sequence[Order]) -> list[Handle]:
        return [super(OneByOne, self).hand_over([each])[0] for each in orders]


class TokenInEnv(YardProvider):
    def order(self, launch: Launch) -> Order:
        order = super().order(launch)
        return replace(order, env={**order.env, "AGENT_ORDER": order.stdin.decode()})


class OrderInTheOpen(YardProvider):
    def order(self, launch: Launch) -> Order:
        path = Path(self.root, f"{launch.token}.order")
        path.write_bytes(launch.stdin)
        path.chmod(0o644)
        return super().order(launch)


#: check -> who breaks it
MUTANTS: dict[str, type[YardProvider]] = {
    "importing_it_is_quick": Heavy,
    "importing_it_loads_nothing_heavy": Heavy,
    "its_constructor_does_no_io": ReadsAtOnce,
    "its_constructor_starts_no_thread": ThreadAtOnce,
    "it_has_a_name_and_capabilities": OddCapabilities,
    "settings_are_a_dataclass_whose_defaults_hold": NeedsAKey,
    "every_setting_says_what_it_is_for": Undocumented,
    "settings_come_back_from_json_as_they_were": NoJson,
    "its_seats_are_known_without_a_look": LooksForSeats,
    "a_launch_starts_one_program": StartsTwice,
    "the_order_arrives_intact": CutsTheOrder,
    "the_environment_arrives_intact": EnvByShell,
    "arguments_arrive_intact": ArgvByText,
    "a_run_begins_in_a_copy_of_its_files": RunsInPlace,
    "launches_are_answered_in_their_order": AnyOrder,
    "a_launch_that_fails_harms_no_other": AllOrNothing,
    "no_launches_are_no_work": CallsForNothing,
    "handles_are_plain_text": LinesForHandles,
    "a_modest_need_is_met_or_refused": NeedsAreRejected,
    "a_need_that_cannot_be_met_never_starts": IgnoresNeeds,
    "a_real_agent_says_hello": LosesTheSocket,
    "find_knows_a_launch_by_its_token": FindsWhenItRan,
    "find_of_an_unknown_token_is_none": FindsAnything,
    "find_takes_no_other_launch_for_it": FindsBeginnings,
    "a_lost_reply_leaves_one_native_job": TriesAgain,
    "observing_nothing_is_no_work": LooksForNothing,
    "observing_unknown_handles_is_no_error": RaisesOverUnknown,
    "unknown_handles_hide_no_others": OneUnknownHidesAll,
    "it_answers_for_what_was_asked": TellsOfAll,
    "phases_never_go_back": GoesBack,
    "what_ended_is_gone_for_every_instance": ActiveForOthers,
    "an_exit_code_is_told": NoExitCodes,
    "an_end_is_told_when_the_native_record_is_purged": ForgetsWithTheYard,
    "status_that_makes_no_sense_means_nothing": GarbageIsGone,
    "an_empty_status_means_nothing": GarbageIsGone,
    "a_place_that_does_not_answer_is_a_failure": RaisesItsOwn,
    "observing_many_costs_two_calls": AsksOneByOne,
    "cancel_ends_it": NeverEnds,
    "cancel_empties_the_process_tree": EndsTheShellOnly,
    "cancel_may_be_repeated": RaisesWhenGone,
    "cancelling_the_unknown_harms_nobody": UnknownMeansAll,
    "an_unknown_handle_saves_no_other": StopsAtUnknown,
    "cancelling_nothing_is_no_work": UnknownMeansAll,
    "a_cancel_is_told_as_such": CancelledIsWell,
    "a_restarted_hub_can_end_it": KnowsItsOwnOnly,
    "all_it_printed_is_kept_after_a_cancel": ThrowsOutputAway,
    "a_wall_time_ends_it": NoLimit,
    "it_prints_nothing": Prints,
    "it_leaves_no_thread_behind": LeavesThreads,
    "it_never_sleeps": Sleeps,
    "it_may_be_called_from_any_thread": OneThreadOnly,
    "check_tells_findings": NothingToSay,
    "check_of_a_place_that_does_not_answer_tells_so": CheckRaises,
    "it_may_rest_and_go_on": RestsForEver,
    "it_may_be_cleared_and_go_on": ClearsOnce,
    "too_many_questions_are_told_as_throttled": NeverThrottled,
    "a_missing_login_is_told_as_such": NeverLogin,
    "many_launches_cost_few_calls": OneByOne,
    "the_token_is_in_no_list_of_processes": TokenInEnv,
    "the_order_is_in_no_file_for_others": OrderInTheOpen,
}
