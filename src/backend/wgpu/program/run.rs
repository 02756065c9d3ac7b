//! Running on our own: submit, wait, and time.

use super::*;

/// Steps of the first submission of a watched run; later ones grow or shrink with what they take.
const FIRST_PART: usize = 16;

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

    /// One submission per step, each timed by the device where it can and by the host's clocks in any case.
    pub(super) fn run_profiled(&mut self) -> Result<(TimingSource, Vec<StepTime>)> {
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
            let mut encoder = self.encoder();
            for launch in &self.steps[index].launches {
                launch.copies.iter().for_each(|copy| self.encode_copy(&mut encoder, copy));
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
                by_token: step.dims.find("n").is_some(),
            });
        }
        Ok((source, times))
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
            self.run_profiled()?
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
            return self.run().map(Some);
        }
        let total = Stopwatch::start();
        let count = self.steps.len();
        let (mut done, mut group) = (0, FIRST_PART);
        let mut encoder = self.encoder();
        self.encode_uploads(&mut encoder)?;
        loop {
            let end = (done + group).min(count);
            self.encode_steps(&mut encoder, done..end);
            let part = std::time::Instant::now();
            self.submit(encoder, &self.schedule.label)?;
            done = end;
            if done == count {
                break;
            }
            if !watch(done, count) {
                return Ok(None);
            }
            group = match part.elapsed() {
                long if long > PART => (group / 2).max(1),
                short if 3 * short < PART => group * 2,
                _ => group,
            };
            encoder = self.encoder();
        }
        let (wall_seconds, cpu_seconds) = total.seconds();
        Ok(Some(Timings { source: TimingSource::Wall, steps: Vec::new(), wall_seconds, cpu_seconds }))
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

    fn set_profiling(&mut self, on: bool) {
        self.profiling = on;
    }

    fn schedule(&self) -> &Schedule {
        &self.schedule
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
