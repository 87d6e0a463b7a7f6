"""What schedulers print, and what is made of it. Texts are as the commands print them, of sites that are not ours."""

from __future__ import annotations

import pytest

from turnout.plugin.provider import Observation, Phase
from turnout.plugin.transport import Told
from turnout.providers.pbs import PbsProvider
from turnout.providers.sge import SgeProvider
from turnout.providers.slurm import SlurmProvider

SLURM, SGE, PBS, TORQUE = SlurmProvider({}), SgeProvider({}), PbsProvider({}), PbsProvider({"family": "torque"})

SQUEUE = """\
JOBID|STATE|EXIT_CODE|RESTART_COUNT|REASON|NODELIST|NAME|
1200_1|RUNNING|0|0|None|c[101]|turnout-aa|
1200_2|PENDING|0|0|Priority||turnout-aa|
1201|COMPLETED|0|0|None|c102|turnout-bb|
1202|FAILED|768|0|NonZeroExitCode|c102|turnout-cc|
1203|FAILED|9|0|RaisedSignal:9(Killed)|c102|turnout-dd|
1204|TIMEOUT|15|0|TimeLimit|c102|turnout-ee|
1205|OUT_OF_MEMORY|32000|0|OutOfMemory|c102|turnout-ff|
1206|NODE_FAIL|1|0|None|c103|turnout-gg|
1207|PREEMPTED|15|0|None|c103|turnout-hh|
1208|PENDING|0|2|BeginTime||turnout-ii|
1209|FAILED|1|0|BadConstraints||turnout-jj|
1210|CANCELLED|0|0|None||turnout-kk|
1211|COMPLETING|0|0|None|c101|turnout-ll|
"""


@pytest.mark.parametrize(
    ("handle", "phase", "reason", "code"),
    [
        ("1200_1", Phase.ACTIVE, "", None),
        ("1200_2", Phase.PENDING, "", None),
        ("1201", Phase.GONE, "", 0),
        ("1202", Phase.GONE, "exit_code", 3),
        ("1203", Phase.GONE, "signal", None),
        ("1204", Phase.GONE, "timeout", None),
        ("1205", Phase.GONE, "oom", None),
        ("1206", Phase.GONE, "node_lost", None),
        ("1207", Phase.GONE, "preempted", None),
        ("1208", Phase.ACTIVE, "", None),  # its agent comes back: it never waited less than it does now
        ("1209", Phase.GONE, "rejected", None),
        ("1210", Phase.GONE, "cancelled", None),
        ("1211", Phase.ACTIVE, "", None),
    ],
)
def test_states_of_slurm(handle: str, phase: Phase, reason: str, code: int | None) -> None:
    seen = SLURM.parse_status(Told(0, SQUEUE, ""))[handle]
    assert (seen.phase, seen.reason, seen.exit_code, seen.id) == (phase, reason, code, handle)


def test_the_reason_why_slurm_lets_a_job_wait() -> None:
    assert SLURM.parse_status(Told(0, SQUEUE, ""))["1200_2"].detail == "Priority"


def test_the_accounting_of_slurm() -> None:
    text = (
        "1200_1|COMPLETED|0:0|c1\n1202|CANCELLED by 1000|0:15|None assigned\n1203|FAILED|3:0|c9\n1204|RUNNING|0:0|c\n"
    )
    seen = SLURM.parse_history(Told(0, text, ""))
    assert (seen["1200_1"].exit_code, seen["1203"].exit_code) == (0, 3)
    assert seen["1202"] == Observation(
        Phase.GONE, "cancelled by 1000", reason="cancelled", native="CANCELLED", id="1202"
    )
    assert seen["1204"].phase is Phase.ACTIVE
    assert SLURM.parse_history(Told(1, "", "Slurm accounting storage is disabled\n")) == {}


QSTAT_XML = """\
<?xml version='1.0'?>
<job_info  xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qstat/qstat.xsd">
  <queue_info>
    <job_list state="running">
      <JB_job_number>20</JB_job_number><JB_name>turnout-aa</JB_name><JB_owner>me</JB_owner><state>r</state>
      <queue_name>all.q@node7</queue_name><slots>4</slots><tasks>1</tasks>
    </job_list>
    <job_list state="running">
      <JB_job_number>23</JB_job_number><JB_name>turnout-dd</JB_name><JB_owner>me</JB_owner><state>dr</state>
      <queue_name>all.q@node7</queue_name><slots>4</slots>
    </job_list>
  </queue_info>
  <job_info>
    <job_list state="pending">
      <JB_job_number>20</JB_job_number><JB_name>turnout-aa</JB_name><JB_owner>me</JB_owner><state>qw</state>
      <queue_name></queue_name><slots>4</slots><tasks>2</tasks>
    </job_list>
    <job_list state="pending">
      <JB_job_number>21</JB_job_number><JB_name>turnout-bb</JB_name><JB_owner>me</JB_owner><state>Eqw</state>
      <queue_name></queue_name><slots>1</slots>
    </job_list>
    <job_list state="pending">
      <JB_job_number>22</JB_job_number><JB_name>turnout-cc</JB_name><JB_owner>me</JB_owner><state>Rqw</state>
      <queue_name></queue_name><slots>1</slots>
    </job_list>
  </job_info>
</job_info>
"""


@pytest.mark.parametrize(
    ("handle", "phase", "detail", "host"),
    [
        ("20.1", Phase.ACTIVE, "", "node7"),
        ("20.2", Phase.PENDING, "queued", ""),
        ("21", Phase.PENDING, "in error: see `qstat -j 21`", ""),
        ("22", Phase.ACTIVE, "requeued, and waits again", ""),
        ("23", Phase.ACTIVE, "", "node7"),
    ],
)
def test_states_of_grid_engine(handle: str, phase: Phase, detail: str, host: str) -> None:
    seen = SGE.parse_status(Told(0, QSTAT_XML, ""))[handle]
    assert (seen.phase, seen.detail, seen.host) == (phase, detail, host)


QACCT = """\
==============================================================
qname        all.q
hostname     node7
jobname      turnout-aa
jobnumber    20
taskid       2
failed       0
exit_status  3
==============================================================
qname        all.q
hostname     node7
jobname      turnout-bb
jobnumber    21
taskid       undefined
failed       37  : qmaster enforced h_rt, h_cpu, or h_vmem limit
exit_status  137                  (Killed)
"""


def test_the_accounting_of_grid_engine() -> None:
    seen = SGE.parse_history(Told(0, QACCT, ""))
    assert (seen["20.2"].exit_code, seen["20.2"].reason, seen["20.2"].host) == (3, "exit_code", "node7")
    assert (seen["21"].exit_code, seen["21"].reason) == (None, "timeout")


QSTAT_PRO = """\
Job Id: 310[].pbs01
    Job_Name = to-aa
    Job_Owner = me@login1.example.org
    job_state = B
    array = True
Job Id: 310[1].pbs01
    Job_Name = to-aa
    job_state = R
    exec_host = node3/0*4
    Variable_List = PBS_O_HOME=/home/me,PBS_O_LANG=C.UTF-8,
\tPBS_O_WORKDIR=/home/me,PBS_O_SYSTEM=Linux
    comment = Job run at Mon Nov 02 at 10:11 on (node3:ncpus=4)
Job Id: 310[2].pbs01
    Job_Name = to-aa
    job_state = X
    Exit_status = 0
Job Id: 311.pbs01
    Job_Name = to-bb
    job_state = Q
    comment = Not Running: Insufficient amount of resource: ncpus (R: 64 A: 8
\t T: 16)
Job Id: 312.pbs01
    Job_Name = to-cc
    job_state = F
    Exit_status = 271
    exec_host = node3/0
Job Id: 313.pbs01
    Job_Name = to-dd
    job_state = F
    Exit_status = -29
Job Id: 314.pbs01
    Job_Name = to-ee
    job_state = F
    Exit_status = 3
qstat: Unknown Job Id 999.pbs01
turnout: qstat ended with 153
"""


@pytest.mark.parametrize(
    ("handle", "phase", "reason", "code"),
    [
        ("310[1]", Phase.ACTIVE, "", None),
        ("310[2]", Phase.GONE, "", 0),
        ("311", Phase.PENDING, "", None),
        ("312", Phase.GONE, "signal", None),
        ("313", Phase.GONE, "timeout", None),
        ("314", Phase.GONE, "exit_code", 3),
    ],
)
def test_states_of_pbs_pro(handle: str, phase: Phase, reason: str, code: int | None) -> None:
    seen = PBS.parse_status(Told(0, QSTAT_PRO, ""))
    assert (seen[handle].phase, seen[handle].reason, seen[handle].exit_code) == (phase, reason, code)
    assert seen["310[1]"].host == "node3" and "999" not in seen
    assert seen["311"].detail == "Not Running: Insufficient amount of resource: ncpus (R: 64 A: 8 T: 16)"


QSTAT_TORQUE = """\
Job Id: 42[1].torque.example.org
    Job_Name = to-aa-1
    job_state = C
    exit_status = 3
    exec_host = n5/0
Job Id: 43.torque.example.org
    Job_Name = to-bb
    job_state = H
Job Id: 44.torque.example.org
    Job_Name = to-cc
    job_state = C
    exit_status = -11
turnout: qstat ended with 0
"""


def test_states_of_torque() -> None:
    seen = TORQUE.parse_status(Told(0, QSTAT_TORQUE, ""))
    assert (seen["42[1]"].phase, seen["42[1]"].exit_code, seen["42[1]"].host) == (Phase.GONE, 3, "n5")
    assert seen["43"].phase is Phase.PENDING and seen["44"].reason == "timeout"


@pytest.mark.parametrize("scheduler", [SLURM, SGE, PBS, TORQUE])
@pytest.mark.parametrize("text", ["", "\n", "what?\n", "<xml>", "Job Id: 1.x\n", QSTAT_PRO[:200], QSTAT_XML[:300]])
@pytest.mark.parametrize("code", [0, 1, 255])
def test_what_is_no_answer_is_told_from_one_that_names_no_job(
    scheduler: SlurmProvider | SgeProvider | PbsProvider, text: str, code: int
) -> None:
    with pytest.raises(ValueError):
        scheduler.parse_status(Told(code, text, ""))
    with pytest.raises(ValueError):
        scheduler.parse_find(Told(code, text, ""), "turnout-aa")


def test_answers_that_name_no_job() -> None:
    empty = "<?xml version='1.0'?>\n<job_info><queue_info></queue_info><job_info></job_info></job_info>\n"
    assert SLURM.parse_status(Told(0, SQUEUE.splitlines()[0] + "\n", "")) == {}
    assert SGE.parse_status(Told(0, empty, "")) == {}
    assert PBS.parse_find(Told(0, "turnout: qstat ended with 0\n", ""), "to-aa") == []
    unknown = "qstat: Unknown Job Id Error 7.torque.example.org\nturnout: qstat ended with 153\n"
    assert TORQUE.parse_status(Told(0, unknown, "")) == {}


@pytest.mark.parametrize(
    ("scheduler", "text", "job"),
    [
        (SLURM, "1200\n", "1200"),
        (SLURM, "sbatch: be kind to others\n1200;cluster2\n", "1200"),
        (SGE, "20\n", "20"),
        (SGE, "20.1-3:1\n", "20"),
        (PBS, "310.pbs01\n", "310"),
        (PBS, "310[].pbs01.example.org\n", "310"),
        (TORQUE, "42[].torque.example.org\n", "42"),
    ],
)
def test_answers_to_a_submit(scheduler: SlurmProvider | SgeProvider | PbsProvider, text: str, job: str) -> None:
    assert scheduler.parse_submit(Told(0, text, "")) == job
    for wrong in ("", "\n", "thank you\n"):
        with pytest.raises(ValueError):
            scheduler.parse_submit(Told(0, wrong, ""))


def test_jobs_by_name() -> None:
    assert SLURM.parse_find(Told(0, SQUEUE, ""), "turnout-aa") == ["1200"]
    assert SGE.parse_find(Told(0, QSTAT_XML, ""), "turnout-aa") == ["20"]
    assert PBS.parse_find(Told(0, QSTAT_PRO, ""), "to-aa") == ["310"]
    assert TORQUE.parse_find(Told(0, QSTAT_TORQUE, ""), "to-bb") == ["43"]
