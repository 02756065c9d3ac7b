//! Running on our own: submit, wait, and time.

use super::*;
use crate::backend::recording::{Recording, Written};

/// Work of the first submission of a watched run, in floating-point operations; later ones grow or shrink with what they take.
const FIRST_WORK: f64 = 64e6;

/// What a dispatch counts at least: the overhead of one on a quick device, in operations.
const LEAST_WORK: f64 = 4e6;

/// What an exponential counts, in operations.
pub(super) const EXP_WORK: f64 = 8.0;

/// What a word counts that moves between memory and the processor, in operations: 30 to 60 on the devices measured.
pub(super) const WORD_WORK: f64 = 32.0;

/// Time that a submission of a watched run should stay under: a frame of the host's window passes between two of them.
const PART: std::time::Duration = std::time::Duration::from_millis(20);

impl WgpuProgram {
    pub(super) fn submit(&self, encoder: ::wgpu::CommandEncoder, context: &str) -> Result<()> {
        self.core.alive()?;
        let submission = self.core.checked(context, || self.core.queue.submit([encoder.finish()]))?;
        self.core.wait_for(Some(submission), context)
    }

    pub(super) fn encoder(&self) -> ::wgpu::CommandEncoder {
        self.core
            .device
            .create_command_encoder(&::wgpu::CommandEncoderDescriptor { label: Some(&self.schedule.label) })
    }

    /// All dispatches in their order: step, number within the step, and about how many operations.
    fn work(&self) -> Vec<(usize, usize, f64)> {
        let of_step = |(index, step): (usize, &Step)| {
            let launches = &self.steps[index].launches;
            let groups: u64 = launches.iter().map(Launch::count).sum();
            let whole = work_of(step) / groups.max(1) as f64;
            let of = move |l: &Launch| (whole * l.count() as f64).max(LEAST_WORK);
            launches.iter().enumerate().map(move |(n, l)| (index, n, of(l))).collect::<Vec<_>>()
        };
        self.schedule.steps.iter().enumerate().flat_map(of_step).collect()
    }

    /// One submission per step, each timed by the device where it can and by the host's clocks in any case. `None` where
    /// `watch`, called between steps, ended it.
    pub(super) fn run_profiled(
        &mut self,
        watch: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<Option<(TimingSource, Vec<StepTime>)>> {
        let mut encoder = self.encoder();
        self.encode_uploads(&mut encoder)?;
        self.submit(encoder, "uploads")?;
        let queries = if self.core.timestamps {
            Some(crate::backend::wgpu::timing::Queries::new(&self.core)?)
        } else {
            None
        };
        let mut source = if queries.is_some() { TimingSource::Timestamp } else { TimingSource::Wall };
        let mut times = Vec::new();
        for index in 0..self.steps.len() {
            if index > 0 && !watch(index, self.steps.len()) {
                return Ok(None);
            }
            let mut encoder = self.encoder();
            for launch in &self.steps[index].launches {
                launch.own_copies().iter().for_each(|copy| self.encode_copy(&mut encoder, copy));
                if launch.copies.is_empty() {
                    continue;
                }
                let mut pass = encoder.begin_compute_pass(&::wgpu::ComputePassDescriptor::default());
                self.encode_launch(&mut pass, index, launch);
            }
            let copied = self.steps[index].launches.iter().any(|l| !l.copies.is_empty());
            if !copied {
                let timestamp_writes = queries.as_ref().map(crate::backend::wgpu::timing::Queries::writes);
                let mut pass = encoder
                    .begin_compute_pass(&::wgpu::ComputePassDescriptor { label: None, timestamp_writes });
                self.steps[index].launches.iter().for_each(|l| self.encode_launch(&mut pass, index, l));
            }
            if let Some(queries) = queries.as_ref().filter(|_| !copied) {
                queries.resolve(&mut encoder);
            }
            let watch = Stopwatch::start();
            self.submit(encoder, self.schedule.steps[index].kernel.name)?;
            let (wall, cpu) = watch.seconds();
            // Copies before a dispatch belong to the step, so such a step is timed from outside.
            let stamped = match queries.as_ref().filter(|_| !copied) {
                Some(queries) => queries.seconds(&self.core, wall)?,
                None => None,
            };
            if stamped.is_none() && !copied {
                source = TimingSource::Wall;
            }
            let step = &self.schedule.steps[index];
            times.push(StepTime {
                kernel: step.kernel.name,
                variant: self.steps[index].variant.name,
                seconds: stamped.unwrap_or(wall),
                cpu_seconds: self.core.software.then_some(cpu),
                by_host: stamped.is_none(),
                by_token: step.dims.find("n").is_some(),
            });
        }
        Ok(Some((source, times)))
    }

    /// Runs all steps in submissions that take about `most` each; between them `watch` is told how many steps of how many are done.
    /// `None` where it ended that.
    fn run_in_submissions(
        &mut self,
        most: std::time::Duration,
        watch: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<Option<Parts>> {
        let total = Stopwatch::start();
        let count = self.steps.len();
        let list = self.work();
        let (mut done, mut budget) = (0, FIRST_WORK);
        let mut parts = Parts::default();
        let mut encoder = self.encoder();
        self.encode_uploads(&mut encoder)?;
        loop {
            // One dispatch at least; a step of many heads may end in the middle.
            let (mut end, mut work) = (done, 0.0);
            while let Some((_, _, more)) = list.get(end).filter(|(_, _, w)| end == done || work + w <= budget)
            {
                work += more;
                end += 1;
            }
            let part =
                list[done..end].iter().map(|&(step, launch, _)| (step, &self.steps[step].launches[launch]));
            self.encode_launches(&mut encoder, part);
            let since = std::time::Instant::now();
            self.submit(encoder, &self.schedule.label)?;
            let seconds = since.elapsed().as_secs_f64();
            parts.add(seconds, end - done);
            done = end;
            let Some(&(step, _, _)) = list.get(done) else { break };
            if !watch(step, count) {
                return Ok(None);
            }
            let taken = seconds / most.as_secs_f64().max(1e-6);
            if !(1.0 / 3.0..=1.0).contains(&taken) {
                budget = (work / taken.max(1e-3)).clamp(budget / 8.0, 2.0 * budget).max(LEAST_WORK);
            }
            encoder = self.encoder();
        }
        let (wall_seconds, cpu_seconds) = total.seconds();
        Ok(Some(Parts { wall_seconds, cpu_seconds, ..parts }))
    }
}

impl Program for WgpuProgram {
    fn write(&mut self, tensor: Tensor, data: &HostTensor) -> Result<()> {
        self.core.alive()?;
        let name = check_write(&self.schedule, tensor, data)?;
        if let Some(object) = &self.objects[tensor.id as usize] {
            let (fits, usage) = match object {
                Object::Buffer { buffer, .. } => {
                    (buffer.usage().contains(::wgpu::BufferUsages::COPY_DST), format!("{:?}", buffer.usage()))
                }
                Object::Texture { texture, .. } => (
                    texture.usage().contains(::wgpu::TextureUsages::COPY_DST),
                    format!("{:?}", texture.usage()),
                ),
            };
            if !fits {
                let expected = "the bound buffer or texture to have usage COPY_DST".into();
                return Err(Error::Data { tensor: name, expected, got: usage });
            }
            self.pending.retain(|(id, _)| *id != tensor.id);
            self.pending.push((tensor.id, data.clone()));
        }
        self.given[tensor.id as usize] = true;
        Ok(())
    }

    fn set_param_bytes(&mut self, pass: PassId, params: &[u8]) -> Result<()> {
        self.core.alive()?;
        let new = self.schedule.relower(&self.graph, pass, params, Lowering::Device(&self.core.caps))?;
        for step in self.schedule.steps.iter_mut().filter(|s| s.pass == pass) {
            step.params.clone_from(&new[step.ordinal]);
        }
        self.graph.passes[pass.0].params = params.to_vec();
        Ok(())
    }

    fn run(&mut self) -> Result<Timings> {
        let total = Stopwatch::start();
        let (source, steps) = if self.profiling {
            self.run_profiled(&mut |_, _| true)?.unwrap_or((TimingSource::Wall, Vec::new()))
        } else {
            let mut encoder = self.encoder();
            self.encode(&mut encoder)?;
            self.submit(encoder, &self.schedule.label.clone())?;
            (TimingSource::Wall, Vec::new())
        };
        let (wall_seconds, cpu_seconds) = total.seconds();
        Ok(Timings { source, steps, wall_seconds, cpu_seconds })
    }

    fn run_watched(&mut self, watch: &mut dyn FnMut(usize, usize) -> bool) -> Result<Option<Timings>> {
        if self.profiling {
            let total = Stopwatch::start();
            let Some((source, steps)) = self.run_profiled(watch)? else { return Ok(None) };
            let (wall_seconds, cpu_seconds) = total.seconds();
            return Ok(Some(Timings { source, steps, wall_seconds, cpu_seconds }));
        }
        self.run_in_submissions(PART, watch).map(|parts| {
            parts.map(|p| Timings {
                source: TimingSource::Wall,
                steps: Vec::new(),
                wall_seconds: p.wall_seconds,
                cpu_seconds: p.cpu_seconds,
            })
        })
    }

    fn run_in_parts(&mut self, most: std::time::Duration) -> Result<Parts> {
        let parts = self.run_in_submissions(most, &mut |_, _| true)?;
        parts.ok_or_else(|| self.core.failed("run", "was ended half way although nobody asked for it"))
    }

    fn encode_seconds(&mut self) -> Result<Option<f64>> {
        let watch = Stopwatch::start();
        let mut encoder = self.encoder();
        self.encode_uploads(&mut encoder)?;
        self.encode_steps(&mut encoder, 0..self.steps.len());
        drop(encoder.finish());
        Ok(Some(watch.seconds().0))
    }

    fn run_burst(&mut self, repeats: u32) -> Result<Burst> {
        let queries = if self.core.timestamps {
            Some(crate::backend::wgpu::timing::Queries::new(&self.core)?)
        } else {
            None
        };
        let watch = Stopwatch::start();
        let mut encoder = self.encoder();
        self.encode_uploads(&mut encoder)?;
        queries.iter().for_each(|q| q.mark(&mut encoder, 0));
        (0..repeats).for_each(|_| self.encode_steps(&mut encoder, 0..self.steps.len()));
        queries.iter().for_each(|q| q.mark(&mut encoder, 1));
        queries.iter().for_each(|q| q.resolve(&mut encoder));
        self.submit(encoder, &self.schedule.label)?;
        let (wall, cpu) = watch.seconds();
        let stamped = match &queries {
            Some(queries) => queries.seconds(&self.core, wall)?,
            None => None,
        };
        let share = f64::from(repeats.max(1));
        let device_seconds = stamped.map(|s| s / share);
        Ok(Burst { device_seconds, wall_seconds: wall / share, cpu_seconds: cpu / share })
    }

    fn read(&mut self, tensor: Tensor) -> Result<HostTensor> {
        let mut encoder = self.encoder();
        let ticket = self.readback(tensor, &mut encoder)?;
        self.submit(encoder, "readback")?;
        ticket.wait()
    }

    fn recording(&self, inputs: &[(Tensor, &HostTensor)]) -> Result<Option<Recording>> {
        self.record(inputs).map(Some)
    }

    fn trace(&self) -> Result<Vec<Vec<Written>>> {
        self.written_by_dispatch()
    }

    fn set_profiling(&mut self, on: bool) {
        self.profiling = on;
    }

    fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    fn step_forms(&self) -> Vec<StepForm> {
        let form = |step: &Prepared| {
            let copies = || step.launches.iter().flat_map(Launch::own_copies).map(|copy| copy.bytes);
            StepForm {
                realisation: crate::backend::Realisation::Wgsl,
                variant: step.variant.name,
                dispatches: step.launches.iter().filter(|l| !l.groups.is_empty()).count(),
                copied_bytes: copies().sum(),
                largest_copy_bytes: copies().max().unwrap_or(0),
            }
        };
        self.steps.iter().map(form).collect()
    }

    fn dispatches(&self) -> usize {
        Self::dispatches(self)
    }

    fn tuned_steps(&self) -> usize {
        self.steps.iter().filter(|s| s.tuned).count()
    }

    fn untried_steps(&self) -> usize {
        self.untried
    }

    fn memory(&self) -> Memory {
        let stage = |s: &Stage| match s {
            Stage::Uniform(buffer) => buffer.size(),
            Stage::Texture(texture, _) => u64::from(texture.width()) * u64::from(texture.height()) * 16,
        };
        Memory {
            transient: self.schedule.transient_bytes(),
            transient_unshared: self.schedule.transient_bytes_unshared(),
            external: self.schedule.external_bytes(),
            staging: self.stages.values().map(stage).sum::<u64>() + 2 * self.params.size(),
        }
    }
}
