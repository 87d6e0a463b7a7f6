"""Worker processes on this machine, and which of them makes which call."""

from __future__ import annotations

import selectors
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from turnout.errors import Conflict
from turnout.futures.engine import Engine, Needs, Task
from turnout.futures.errors import TaskTimeout, WorkerDied
from turnout.futures.functions import Functions
from turnout.futures.local import causes, roster
from turnout.futures.local.calls import Call, News, tell
from turnout.futures.local.frames import CALL, FREED, READY, RESULTS, SEGMENT
from turnout.futures.local.inbox import Frame, Result, results
from turnout.futures.local.member import Member
from turnout.futures.local.segments import Segments
from turnout.futures.local.staff import Staff
from turnout.futures.packing import Awaits, pack, pack_arguments, unpack
from turnout.futures.waiting import when_done

_AHEAD = 0.01  # seconds of work that a worker is given ahead
_MOST_AHEAD = 1024
_FEW = 4  # calls; who has as many gets more when it is heard
_STUCK_SECONDS = 0.05  # who is not heard of for so long is at a long call; what waits behind it may go elsewhere
_PER_BYTE = 1e-9  # seconds by which a call counts as longer for each byte in its large buffers
_LOADING_SECONDS = 60.0  # that a function with a limit may take to be loaded
_SOON = 0.05
_LOOK_SECONDS = 0.5  # between looks at what nobody tells: memory, and calls that no worker is there for
_FIRST = 1 << 63  # the number of the call that each worker begins with, if there is one
_MOST_FREED = 16  # buffers that a worker may have back without being told
_BUFFERS = 256  # large ones that are kept of workers, by all together


class Crew(Engine):
    """`workers` processes, each with `needs` for its call; so many of them `per_gpu` share one. `first` is called in
    each before all else; what it raises breaks the crew."""

    def __init__(self, workers: int, needs: Needs, *, per_gpu: int = 1, first: Callable[[], Any] | None = None) -> None:
        self._size = workers
        self._usual = needs
        self._per_gpu = per_gpu
        self._first = first
        self._lock = threading.RLock()
        self._is_on = False

    def start(self) -> None:
        self._staff = Staff(self._size, self._usual, per_gpu=self._per_gpu, buffers=_BUFFERS)
        self._functions = Functions()
        self._segments = Segments(2 * _BUFFERS)
        self._waiting: dict[Needs, deque[Call]] = {self._usual: deque()}
        self._parked: set[Call] = set()
        self._number = 0
        self._is_on = True
        self._thread = threading.Thread(target=self._run, name="turnout workers", daemon=True)
        try:
            self._adjust([])
            if self._staff.broken is not None:
                raise self._staff.broken
        except BaseException:
            self._is_on = False
            self._close()
            raise
        self._thread.start()

    def submit(self, task: Task) -> None:
        needs = task.terms.needs or self._usual
        news: News = []
        with self._lock:
            if not self._is_on:
                raise Conflict("this executor is stopped", hint="make another one")
            if self._staff.broken is not None:
                raise self._staff.broken
            if needs not in self._waiting:
                self._staff.check(needs)
                self._waiting[needs] = deque()
            self._number += 1
            self._waiting[needs].append(Call(self._number, task, self._functions.get(task.function), needs))
            self._offer(needs, news)
        tell(news)

    def scale(self, workers: int) -> None:
        news: News = []
        with self._lock:
            self._staff.resize(workers)
            self._size = workers
            self._adjust(news)
        tell(news)

    def drop_waiting(self) -> None:
        with self._lock:
            news: News = [call.task.drop for queue in self._waiting.values() for call in queue if not call.is_begun]
            news += [call.task.drop for call in self._parked]
            self._parked.clear()
            for queue in self._waiting.values():
                begun = [call for call in queue if call.is_begun]
                queue.clear()
                queue.extend(begun)
        tell(news)

    def stop(self) -> None:
        with self._lock:
            if not self._is_on:
                return
            self._is_on = False
        self._staff.ring()
        self._thread.join()
        tell(self._close())

    def _close(self) -> News:
        """Ends all that there is. No thread of ours is left."""
        news: News = []
        self._staff.close()
        amid = WorkerDied("the executor was stopped amid the call")
        news += [call.failing(amid) for member in self._staff.members for call in member.calls.values()]
        for queue in self._waiting.values():
            stopped = WorkerDied("the executor was stopped before the call was made again")
            news += [call.failing(stopped) if call.is_begun else call.task.drop for call in queue]
        news += [call.task.drop for call in self._parked]
        self._staff.members.clear()
        self._waiting.clear()
        self._parked.clear()
        self._segments.close()
        return news

    # --- the calls: whoever is below has the lock -------------------------------------------------------------------

    def _has_room(self, member: Member) -> bool:
        """Whether it should be given something."""
        if not member.is_ready or member.is_leaving or member.deadline is not None:
            return False
        if not member.calls:
            return True
        return not member.is_stuck and member.load < _AHEAD and len(member.calls) < _MOST_AHEAD

    def _offer(self, needs: Needs, news: News) -> None:
        """What waits, to one who has room for it: if possible, to one who has nothing to do."""
        if self._staff.broken is not None:
            self._give_up(self._staff.broken, news)
            return
        chosen = None
        for member in self._staff.members:
            if len(member.calls) < _FEW and member.needs == needs and self._has_room(member):
                chosen = member if chosen is None or not member.calls else chosen
                if not member.calls:
                    break
        if chosen is not None:
            self._give(chosen, news)
        elif self._lacks_some():
            self._adjust(news)
            self._staff.ring()

    def _give(self, member: Member, news: News) -> None:
        """As much as it may have."""
        queue = self._waiting[member.needs]
        parts: list[bytes] = []
        count = 0
        while queue and self._has_room(member):
            call = queue[0]
            seconds = call.task.terms.seconds
            if seconds is not None and member.calls:
                break  # its time begins when it is given
            queue.popleft()
            if not call.parts and not self._pack(call, news):
                continue
            member.learn(call.function.number, call.function.data)
            parts += call.parts
            member.calls[call.number] = call
            member.load += call.seconds
            member.lent.update(call.segments)
            count += 1
            if seconds is not None:
                call.given = time.monotonic()
                member.deadline = call.given + seconds
                self._staff.ring()
        if count:
            member.make(parts, count)
            self._staff.send(member)

    def _pack(self, call: Call, news: News) -> bool:
        """Makes it ready to be sent; False when it is not to be made now, or not at all."""
        task, function = call.task, call.function
        try:
            keeps_all = self._segments.is_full
            if function.number:
                data, buffers = pack_arguments(task.args, task.kwargs, keeps_all=keeps_all)
            else:
                data, buffers = pack((task.function, task.args, task.kwargs), keeps_all=keeps_all)
            if not call.is_begun and not task.begin():
                return False
            call.is_begun = True
            records = [self._segments.put(each) for each in buffers]
        except Awaits as missing:
            self._parked.add(call)
            these = missing.these
            news.append(lambda: when_done(these, lambda: self._resume(call)))
            return False
        except BaseException as error:
            news.append(call.failing(error))
            return False
        call.parts = [CALL.pack(call.number, function.number, len(data), len(records)), data, *records]
        call.segments = [SEGMENT.unpack_from(each)[0] for each in records]
        size = sum(each.raw().nbytes for each in buffers)
        call.seconds = (1.0 if function.pace is None else function.pace) + _PER_BYTE * size
        return True

    def _resume(self, call: Call) -> None:
        news: News = []
        with self._lock:
            if call in self._parked:  # if not, it was dropped meanwhile
                self._parked.remove(call)
                self._waiting[call.needs].append(call)
                self._offer(call.needs, news)
        tell(news)

    def _rescue(self, now: float) -> None:
        """What waits behind a long call goes to who has time for it."""
        for member in self._staff.members:
            if len(member.calls) > 1 and now - member.heard > _STUCK_SECONDS:
                self._take_back(member, len(member.calls))

    def _take_back(self, member: Member, most: int) -> None:
        taken = member.take_back(most)
        if taken:
            for call in reversed(taken):
                member.load -= call.seconds
                member.lent.difference_update(call.segments)
                self._waiting[member.needs].appendleft(call)
            self._staff.send(member)

    def _feed(self, member: Member, news: News) -> None:
        """It may have something to do, if there is anything: of what waits, or of what others have too much of."""
        now = time.monotonic()
        self._rescue(now)
        self._give(member, news)
        if member.calls or not self._has_room(member):
            return
        others = [each for each in self._staff.members if each.needs == member.needs and len(each.calls) > 1]
        if others:
            most = max(others, key=lambda each: len(each.calls))
            self._take_back(most, len(most.calls) // 2)
            self._give(member, news)

    # --- the workers ------------------------------------------------------------------------------------------------

    def _adjust(self, news: News) -> None:
        """Starts and ends workers, as is needed."""
        if self._staff.broken is None:
            now = time.monotonic()
            queues = [(needs, queue) for needs, queue in self._waiting.items() if queue]
            self._staff.adjust([roster.Waiting(needs, len(queue), now - queue[0].since) for needs, queue in queues])
        if self._staff.broken is not None:
            self._give_up(self._staff.broken, news)

    def _bury(self, member: Member, news: News) -> None:
        """It has ended. What it was at is made again, unless that was too often; what it had not begun, as if nothing
        had been."""
        self._hear(member, news)  # what it told before
        code = self._staff.bury(member)
        for call in member.calls.values():
            call.unpack()
        culprit = member.calls.pop(member.at, None)
        if culprit is not None:
            self._blame(culprit, member, code, news)
        self._waiting[member.needs].extendleft(reversed(member.calls.values()))
        for segment in member.lent:
            self._segments.free(segment)
        self._adjust(news)
        for each in self._staff.members:
            if self._has_room(each):
                self._give(each, news)

    def _blame(self, call: Call, member: Member, code: int, news: News) -> None:
        call.deaths += 1
        if member.cause is not None:
            news.append(call.failing(member.cause))
        elif call.deaths <= call.task.terms.retries:
            self._waiting[member.needs].appendleft(call)
        else:
            what = causes.describe(code, causes.ooms() - member.ooms)
            times = f"; so did {call.deaths - 1} before it" if call.deaths > 1 else ""
            news.append(call.failing(WorkerDied(f"{what}{times}", hint="the call was given up")))

    def _give_up(self, error: Exception, news: News) -> None:
        """Nothing can be done any more."""
        for queue in self._waiting.values():
            news += [call.failing(error) for call in queue]
            queue.clear()

    # --- the thread that listens ------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._turn():
            pass

    def _turn(self) -> bool:
        """Listens once; False when it is over. While it waits for the next, nothing is kept of what it heard."""
        ready = self._staff.listen(self._seconds_left())
        news: News = []
        with self._lock:
            if not self._is_on:
                return False
            for key, events in ready:
                self._attend(key, events, news)
            self._look(news)
        tell(news)
        for member in self._staff.members:
            if len(member.freed) > _MOST_FREED:
                with self._lock:
                    self._staff.send(member)
        return True

    def _attend(self, key: selectors.SelectorKey, events: int, news: News) -> None:
        member: Member | None = key.data
        if member is None:
            self._staff.hush()
        elif member not in self._staff.members:
            pass  # it was buried a moment ago
        elif key.fd == member.ended:
            self._bury(member, news)
        else:
            if events & selectors.EVENT_WRITE:
                self._staff.send(member)
            if events & selectors.EVENT_READ and self._hear(member, news):
                self._feed(member, news)

    def _hear(self, member: Member, news: News) -> bool:
        """Takes what it says; whether it has said anything."""
        heard = member.hear()
        for frame in heard:
            if frame.kind == RESULTS:
                self._end(member, frame, news)
            elif frame.kind == FREED:
                for (number,) in SEGMENT.iter_unpack(frame.body):
                    member.lent.discard(number)
                    self._segments.free(number)
            elif frame.kind == READY:
                self._greet(member)
        if heard:
            member.heard, member.is_stuck = time.monotonic(), False
        return bool(heard)

    def _greet(self, member: Member) -> None:
        self._staff.greet()
        member.is_ready = self._first is None
        if self._first is not None:
            data, _ = pack((self._first, (), {}))
            member.make([CALL.pack(_FIRST, 0, len(data), 0), data], 1)
            self._staff.send(member)

    def _end_first(self, member: Member, outcome: Result, news: News) -> None:
        try:
            unpack(outcome.ended, outcome.data, ())
            member.is_ready = True
        except BaseException as error:
            broken = WorkerDied(f"the initializer failed: {type(error).__name__}: {error}")
            broken.__cause__ = error
            self._staff.broken = broken
            self._adjust(news)

    def _end(self, member: Member, frame: Frame, news: News) -> None:
        for each in results(frame.body):
            if each.number == _FIRST:
                self._end_first(member, each, news)
                continue
            try:
                buffers = [member.views.get(record) for record in each.buffers]
            except OSError:
                member.kill()  # it dies already, as a rule, and what it made is gone with it: the call is made again
                continue
            call = member.calls.pop(each.number)
            member.load = member.load - call.seconds if member.calls else 0.0
            member.deadline = None
            call.function.took(each.seconds)
            news.append(call.ending(each, buffers))

    def _look(self, news: News) -> None:
        now = time.monotonic()
        for member in self._staff.members:
            if member.deadline is not None and now >= member.deadline and member.cause is None:
                self._end_late(member, now)
            limit = member.needs.memory
            if limit and member.cause is None and (has := causes.resident(member.pid)) > limit:
                member.cause = WorkerDied(f"the call took {has >> 20} MB of memory, and may have {limit >> 20} MB")
                member.kill()
        if self._lacks_some():
            self._adjust(news)

    def _end_late(self, member: Member, now: float) -> None:
        """Its call took too long, or that will be seen later: its time begins when the function was loaded."""
        (call,) = member.calls.values()
        seconds = call.task.terms.seconds
        assert seconds is not None
        called = member.called_at(call.number)
        if called is None and now < call.given + seconds + _LOADING_SECONDS:
            member.deadline = now + _SOON
        elif called is not None and now < called + seconds:
            member.deadline = called + seconds
        else:
            member.cause = TaskTimeout(f"the call took more than {seconds:g} s, and was ended")
            member.kill()

    def _lacks_some(self) -> bool:
        """Whether calls wait for which there is no worker, also none that is on its way."""
        return self._staff.lacks(needs for needs, queue in self._waiting.items() if queue)

    def _seconds_left(self) -> float | None:
        """Until there is something to look at."""
        with self._lock:
            ends = [
                member.deadline
                for member in self._staff.members
                if member.deadline is not None and member.cause is None
            ]
            looks = any(member.needs.memory for member in self._staff.members) or self._lacks_some()
        least = min(ends) - time.monotonic() if ends else None
        if looks:
            least = min(_LOOK_SECONDS, least) if least is not None else _LOOK_SECONDS
        return None if least is None else max(0.0, least)
