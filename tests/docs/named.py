"""What the five documents name, as the page of coverage spells it: two spaces, or a new line, between any two."""

from __future__ import annotations

import re


def _split(text: str) -> list[str]:
    return re.split(r" {2,}|\s*\n\s*", text.strip())


def _each(form: str, names: str) -> list[str]:
    return [form.format(name) for name in names.split()]


NAMED = {
    "XT's life cycle": [
        *_split(
            """
            hyperparameter search style  snapshot  activate command  setup script: conda  setup script: python
            data mount
            data download  model mount  model download  controller or the user's app  create the job and its run(s)
            upload code  user environment variables  XT environment variables  configuration parameters  backend submit
            pre-processing  download code  unzip code  direct mode  launches the run  MRC  single or parent run  wrap-up
            controller exit  service post-processing  default settings  credentials  local directory
            command line options
            [xt-services]  [compute-targets]  [boxes]  optional  xt help  .sh  .bat  conda virtual environment
            downloads data  dependencies  runs the app  analysis  --repeat  --runs  --parent-script  Python file
            default RUN SCRIPT  active conda environment  py36  targets an app  targets a file  new job
            run for each box
            "created"  "capture_before"  BEFORE files  "queued"  run-queue  "max-runs"  "started"  "download_before"
            $RUN_ARGS$  one is created  environment variables for the run  STDOUT and STDERR  "output.txt"  "XT attach"
            hyperparameter settings  metric snapshots  "ended"  AFTER files  "capture_after"  PARENT runs
            PARENT script runs  script completes, the PARENT is requeued  CHILD run is created  CHILD run is started
            decremented  not zero  Azure Batch  assumed to be ready  starts runs from the run-queue  has run already
            """
        ),
    ],
    "XT's compute providers": [
        *_split(
            """
            BackendInterface  `adjust_run_commands`  `submit_job`  `view_status`  `provides_container_support`
            `cancel_runs_by_names`  `cancel_runs_by_job`  `cancel_runs_by_user`  `service_job_id`  `monitor_url`
            console.print()  `cancel_results`  `cancel_results_by_box`  `providers`  `compute`  `external-services`
            `compute-targets`  `type`  `account`  `service`  `sku`  `nodes`  code path  Python path  subdirectory
            client machine  compute node  Azure ML  Philly  injected before the user's command  files can still be added
            """
        ),
        *_each(
            "`adjust_run_commands`: argument `{}`", "job_id job_runs using_hp experiment service_type snapshot_dir args"
        ),
        *_each(
            "`submit_job`: argument `{}`",
            "job_id job_runs workspace compute_def resume_name repeat_count using_hp runs_by_box experiment"
            " snapshot_dir args",
        ),
        *_each(
            "`view_status`: argument `{}`",
            "run_name workspace job monitor escape_secs auto_start stage_flags status max_finished",
        ),
        *_each("`cancel_runs_by_names`: argument `{}`", "workspace run_names box_name"),
        *_each("`cancel_runs_by_job`: argument `{}`", "job_id runs_by_box"),
        *_each("`cancel_runs_by_user`: argument `{}`", "box_name"),
        *_each("cancel result: key `{}`", "workspace run_name exper_name killed status before_status"),
    ],
    "Calculation backends": [
        *_split(
            """
            `CalculationBackend`  `ComputeResources`  `number_of_workers`  `resources_per_worker`  `start`  `stop`
            temporary worker files  `submit_task`  `function`  `*args`  `**kwargs`  asynchronously  `Future`
            queried for completion  context manager  multiprocessing  Dask  Parsl  Celery  dedicated resources
            `MyCalculationBackend`  several workers
            """
        ),
    ],
    "TrainingService": [
        *_split(
            """
            `TrainingService`  listTrialJobs  getTrialJob  addTrialJobMetricListener  removeTrialJobMetricListener
            submitTrialJob  updateTrialJob  isMultiPhaseJobSupported  cancelTrialJob  setClusterMetadata
            getClusterMetadata  cleanUp  `run()`  EventEmitter  `RUNNING`  `SUCCEED`  `FAILED`  `JobApplicationForm`
            `TrialJobStatus`  `TrialJobMetric`  NNIManager  Dispatcher  REST server  unit tests  nni_annotation  nni_cmd
            nni_gpu_tool  nni_trial_tool  sdk  webui  debug  argument `isEarlyStopped`  platform: local
            platform: remote
            platform: PAI  platform: Kubeflow  platform: FrameworkController  TrialKeeper: keeps a trial running
            TrialKeeper: the trial command is wrapped
            """
        ),
        *_each(
            "`TrialJobDetail`: `{}`",
            "id status submitTime startTime endTime tags url workingDirectory form sequenceId isEarlyStopped",
        ),
        *_each("`RemoteMachineMeta`: `{}`", "ip port username passwd sshKeyPath passphrase gpuSummary gpuReservation"),
    ],
    "Job types and queues": [
        *_split(
            """
            `metapipe.models.Job`  Job.__repr__  `Job.cmd`  `Job.submit(job)`  `Job.is_running()`  `Job.is_queued()`
            `Job.is_complete()`  `Job.is_error()`  booleans  required  `Job.filename`  ['bash', self.filename]
            `Job.attempts`  `Job.make()`  `Job.waiting`  `Job.id`  `call`  `PBSJob`  qsub  `metapipe.models.Queue`
            `JobQueue`  Queue.__repr__  `queue`  `on_start()`  `on_end()`  `on_locked()`  `on_tick()`  `on_ready(job)`
            `on_submit(job)`  `on_complete(job)`  `on_error(job)`  optional  `JOB_TYPES`  `Parser(config)`
            `Parser.consume()`  `SyntaxError('Invalid config file')`  `Runtime(  custom queues  scripting  not included
            """
        ),
    ],
}
