"""A job type for PBS as somebody writes it who has read Metapipe's document, and nothing else."""

PBS_JOB = """
from metapipe.models import Job
from metapipe.models.job import call


class PBSJob(Job):

    def __repr__(self):
        return '<PBSJob: {}>'.format(self.cmd)

    @property
    def cmd(self):
        return ['qsub', self.filename]

    def submit(self, job):
        if self.attempts == 0:
            job.make()
        self.attempts += 1
        out = call(job.cmd)
        self.waiting = False
        self.id = out[:out.index('.')]

    def is_running(self):
        return self._field('job_state') == 'R'

    def is_queued(self):
        return self._field('job_state') == 'Q'

    def is_complete(self):
        return self._field('job_state') == 'F' and self._field('Exit_status') == '0'

    def is_error(self):
        return self._field('job_state') == 'F' and self._field('Exit_status') != '0'

    def _field(self, name):
        for line in call(['qstat', '-x', '-f', self.id]).splitlines():
            key, _, value = line.strip().partition(' = ')
            if key == name:
                return value
"""
