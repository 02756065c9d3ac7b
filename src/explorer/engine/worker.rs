//! The engine's loop: what changed since the last request decides which stages run again.
//!
//! picture → features (again for another picture, patch or head count) → rows of the clicked query (again for another
//! query, λ, mask, landmark or normalisation) → layers (again for other colours). Numbers go from stage to stage on the
//! device; only statistics and the values under the pointer come back to the host.

mod analyses;
mod diffusion;
mod features;
mod relative_mask;
mod rows;

use super::machine::{Machine, Window};
use super::ranges;
use super::{Answer, Request, Shared};
use crate::backend::{Memory, TimingSource, Timings};
use crate::error::Error;
use crate::explorer::settings::Device;
use crate::explorer::snapshot::{Distances, Guard, LayerId, Needs, Parity, Row, Snapshot, Trace};
use crate::vision::scene::{self, NoTwin, SceneError};
use features::{Chosen, Features};
use rows::{Inputs, Ran, Rows, inverse_notice, landmark_cells};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Why a request has no answer.
#[derive(Debug)]
enum Stop {
    /// It was cancelled, or a newer one came.
    GaveWay,
    /// A mask hides every token from the clicked one.
    SeesNothing,
    /// It cannot be done.
    Failed(String),
    /// The device is gone.
    Lost(String),
    /// Something panicked.
    Panicked(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        match error {
            Error::DeviceLost { .. } => Self::Lost(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<SceneError> for Stop {
    fn from(error: SceneError) -> Self {
        match error {
            SceneError::Engine(error) => error.into(),
            other => Self::Failed(other.to_string()),
        }
    }
}

/// What the engine's thread holds: the stages, and what each was last computed for.
pub(super) struct Worker {
    window: Window,
    shared: Arc<Shared>,
    wake: Box<dyn Fn() + Send>,
    machine: Option<(Device, Machine)>,
    features: Option<Features>,
    versions: u64,
    chosen: Option<Chosen>,
    rows: Option<Rows>,
    ran: Option<Ran>,
    trace: Option<(Inputs, f32, Arc<Vec<Trace>>)>,
    distances: Option<(u64, Vec<f32>, Arc<Vec<Distances>>)>,
    parity: Option<(Inputs, Arc<Parity>)>,
    guard: Option<(relative_mask::GuardKey, Arc<Guard>)>,
    diffusions: diffusion::Diffusions,
}

impl Worker {
    pub(super) fn new(window: Window, shared: Arc<Shared>, wake: Box<dyn Fn() + Send>) -> Self {
        Self {
            window,
            shared,
            wake,
            machine: None,
            features: None,
            versions: 0,
            chosen: None,
            rows: None,
            ran: None,
            trace: None,
            distances: None,
            parity: None,
            guard: None,
            diffusions: diffusion::Diffusions::default(),
        }
    }

    pub(super) fn work(&mut self) {
        let mut gave_way = false;
        while let Some((number, request, since)) = self.next() {
            self.shared.working_on("computing the map", since);
            self.shared.finish.store(gave_way || request.live, Ordering::Release);
            // A fault of a driver or of ours must not leave the window waiting for ever.
            let life = std::panic::AssertUnwindSafe(|| self.answer(number, &request, since));
            let outcome = std::panic::catch_unwind(life).unwrap_or_else(|_| {
                Err(Stop::Panicked(
                    "the engine stopped with an internal fault: change a setting to try again".into(),
                ))
            });
            gave_way = matches!(outcome, Err(Stop::GaveWay));
            self.shared.idle();
            match outcome {
                Ok(()) | Err(Stop::GaveWay | Stop::SeesNothing) => {}
                Err(Stop::Failed(why)) => self.put(Answer::Failed(why)),
                Err(Stop::Panicked(why)) => {
                    self.put(Answer::Failed(why));
                    self.forget();
                }
                Err(Stop::Lost(why)) => {
                    self.put(Answer::Lost(why));
                    self.forget();
                }
            }
            (self.wake)();
        }
    }

    /// Waits for a request; `None` when the window is gone.
    fn next(&self) -> Option<(u64, Request, Instant)> {
        let mut mailbox = self.shared.mailbox.lock().ok()?;
        loop {
            if mailbox.stop {
                return None;
            }
            if let Some(request) = mailbox.request.take() {
                self.shared.newer.store(false, Ordering::Release);
                return Some(request);
            }
            mailbox = self.shared.bell.wait(mailbox).ok()?;
        }
    }

    fn put(&self, answer: Answer) {
        if let Ok(mut mailbox) = self.shared.mailbox.lock() {
            mailbox.answer = Some(answer);
        }
        (self.wake)();
    }

    /// Everything on a device that is gone.
    fn forget(&mut self) {
        (self.machine, self.features, self.rows, self.ran) = (None, None, None, None);
        // What is found beside the map tells of the device, too.
        self.guard = None;
    }

    fn answer(&mut self, number: u64, request: &Request, since: Instant) -> Result<(), Stop> {
        let shared = Arc::clone(&self.shared);
        let mut watch = |done: usize, total: usize| shared.step(done, total, since);
        self.open(&request.device)?;
        self.shared.working_on("reading the picture", since);
        self.read_picture(request, &mut watch)?;
        self.shared.working_on("computing the map", since);
        match self.compute(request, &mut watch) {
            Err(Stop::SeesNothing) => {
                let mut snapshot = self.nothing_seen(number, request)?;
                self.make_diffusion(request, &mut watch)?;
                let key = self.diffusion_key(request);
                snapshot.diffusion = key.and_then(|key| self.diffusions.found(&key));
                snapshot.latency = since.elapsed();
                self.put(Answer::Found(Arc::new(snapshot)));
                return Ok(());
            }
            computed => computed?,
        }
        let mut snapshot = self.snapshot(number, request)?;
        snapshot.latency = since.elapsed();
        let needs = request.needs;
        let later = needs.trace || needs.distances || needs.parity || needs.guard || needs.diffusion;
        let cached = self.attach(&mut snapshot, request);
        self.paint_parity(&mut snapshot, request)?;
        self.put(Answer::Found(Arc::new(snapshot.clone())));
        if !later || cached {
            return Ok(());
        }
        if needs.diffusion {
            // First, for it follows the hand.
            self.shared.working_on("spreading over the picture", since);
            self.make_diffusion(request, &mut watch)?;
            self.attach(&mut snapshot, request);
            self.put(Answer::Found(Arc::new(snapshot.clone())));
        }
        if request.needs.trace {
            self.shared.working_on("tracing the inverse", since);
            self.make_trace(request, &mut watch)?;
        }
        if !watch(0, 0) {
            return Err(Stop::GaveWay);
        }
        if request.needs.distances {
            self.shared.working_on("sampling distances", since);
            self.make_distances(request)?;
        }
        if request.needs.parity {
            self.shared.working_on("asking the f64 reference", since);
            self.make_parity(&snapshot, &mut watch)?;
        }
        if needs.guard {
            self.shared.working_on("measuring the noise guard", since);
            self.make_guard(request, &mut watch)?;
        }
        snapshot.layers.retain(|layer| layer.id != LayerId::Parity);
        self.attach(&mut snapshot, request);
        self.paint_parity(&mut snapshot, request)?;
        self.put(Answer::Found(Arc::new(snapshot)));
        Ok(())
    }

    fn open(&mut self, device: &Device) -> Result<(), Stop> {
        if self.machine.as_ref().is_some_and(|(open, _)| open == device) {
            return Ok(());
        }
        self.forget();
        self.machine = Some((device.clone(), Machine::open(device, &self.window)?));
        Ok(())
    }

    fn machine(&self) -> Result<Machine, Stop> {
        let machine = self.machine.as_ref().map(|(_, machine)| machine.clone());
        machine.ok_or_else(|| Stop::Failed("no device is open".into()))
    }

    fn snapshot(&mut self, number: u64, request: &Request) -> Result<Snapshot, Stop> {
        let machine = self.machine()?;
        let (Some(features), Some(rows), Some(ran)) = (&mut self.features, &mut self.rows, &self.ran) else {
            return Err(Stop::GaveWay);
        };
        let look = &request.look;
        let fused = ranges::fused(&ran.row, look.fusion);
        let exact = ran.exact.as_ref().map(|heads| ranges::fused(heads, look.fusion));
        let tokens = features.grid.tokens();
        let unmasked = if request.needs.mask { rows.read_unmasked(tokens)? } else { None };
        let unmasked = unmasked.map(|heads| Row { fused: ranges::fused(&heads, look.fusion), heads });
        let others = (exact.as_deref(), unmasked.as_ref().map(|row| row.fused.as_slice()));
        let layers = rows.paint(&machine, &self.window, request, (&ran.row, &fused), others)?;
        let mut memory = Memory::default();
        for part in [features.stage.program().memory(), rows.stage.program().memory()] {
            memory.transient += part.transient;
            memory.transient_unshared += part.transient_unshared;
            memory.external += part.external;
            memory.staging += part.staging;
        }
        let cells = match rows.landmarks {
            0 => Vec::new(),
            _ => landmark_cells(&request.compute, &features.grid)?,
        };
        let mut notices = features.notices.clone();
        notices.extend(rows.notice.clone());
        notices.extend(inverse_notice(&ran.inverse));
        let no_exact = match (&ran.exact, rows.no_twin) {
            (Some(_), _) => None,
            _ if rows.exact => Some("the rows are exact".to_string()),
            (None, Some(NoTwin::NoExactForm)) => {
                Some("this normalisation has no exact form to compare with".to_string())
            }
            (None, Some(NoTwin::TooManyTokens { .. })) if ran.inputs.keep.is_some() => {
                Some("exact rows of this normalisation know no masks".to_string())
            }
            (None, Some(NoTwin::TooManyTokens { most })) => Some(format!(
                "exact rows of this normalisation meet all pairs of tokens: shown up to {most} tokens, here {}",
                features.grid.tokens()
            )),
            (None, None) => None,
        };
        let mask_way = match request.needs.mask {
            true => relative_mask::way(&request.compute, features, &machine)?,
            false => None,
        };
        let relative_error = exact.as_ref().map(|e| scene::relative_error(&fused, e));
        Ok(Snapshot {
            request: number,
            compute: request.compute.clone(),
            look: look.clone(),
            query: request.query,
            query_token: features.grid.token_at(request.query).map_err(SceneError::from)?,
            grid: features.grid.clone(),
            device: machine.info(),
            on_window_device: machine.draws(),
            lambda: ran.inputs.lambda.clone(),
            landmarks: rows.landmarks,
            landmark_cells: cells,
            exact: rows.exact,
            unmasked_row: unmasked,
            mask_weights: ran.weights.clone(),
            mask_way,
            guard: None,
            diffusion: None,
            hidden_keys: ran.inputs.keep.as_ref().map(|keys| keys.iter().filter(|key| **key == 0).count()),
            sinks: ranges::sinks(&fused),
            row: Row { heads: ran.row.clone(), fused },
            exact_row: ran.exact.clone().zip(exact).map(|(heads, fused)| Row { heads, fused }),
            relative_error,
            no_exact,
            inverse: ran.inverse.clone(),
            no_parity: rows.parity_problem(request, features.grid.tokens()),
            trace: None,
            distances: None,
            parity: None,
            schedules: [&mut features.stage, &mut rows.stage]
                .map(|s| Arc::new(s.program().schedule().clone()))
                .to_vec(),
            timings: ran.timings.clone(),
            latency: Duration::ZERO,
            memory,
            notices,
            layers,
        })
    }

    /// The answer where a mask hides every token from the clicked one: there is no row.
    fn nothing_seen(&mut self, number: u64, request: &Request) -> Result<Snapshot, Stop> {
        let machine = self.machine()?;
        let options = request.compute.scene()?;
        let lambda = self.bandwidths(&request.compute, &options)?;
        let features = self.features.as_mut().ok_or(Stop::GaveWay)?;
        let plan = scene::plan_rows(&options, &features.grid)?;
        let cells = match plan.landmarks {
            0 => Vec::new(),
            _ => landmark_cells(&request.compute, &features.grid)?,
        };
        let why = crate::explorer::snapshot::SEES_NOTHING;
        let token = features.grid.token_at(request.query).map_err(SceneError::from)?;
        let mask_way = match request.needs.mask {
            true => relative_mask::way(&request.compute, features, &machine)?,
            false => None,
        };
        Ok(Snapshot {
            request: number,
            compute: request.compute.clone(),
            look: request.look.clone(),
            query: request.query,
            query_token: token,
            grid: features.grid.clone(),
            device: machine.info(),
            on_window_device: machine.draws(),
            lambda,
            landmarks: plan.landmarks,
            landmark_cells: cells,
            exact: plan.exact,
            unmasked_row: None,
            mask_weights: rows::weights_of(&request.compute.mask, &features.grid, token)?,
            mask_way,
            guard: None,
            diffusion: None,
            hidden_keys: Some(features.grid.tokens()),
            sinks: Vec::new(),
            row: Row::default(),
            exact_row: None,
            relative_error: None,
            no_exact: Some(why.into()),
            inverse: Vec::new(),
            no_parity: Some(why.into()),
            trace: None,
            distances: None,
            parity: None,
            schedules: vec![Arc::new(features.stage.program().schedule().clone())],
            timings: Timings {
                source: TimingSource::Wall,
                steps: Vec::new(),
                wall_seconds: 0.0,
                cpu_seconds: 0.0,
            },
            latency: Duration::ZERO,
            memory: features.stage.program().memory(),
            notices: features.notices.clone(),
            layers: Vec::new(),
        })
    }

    /// Adds what was found for the same inputs before; whether nothing that is needed is missing.
    fn attach(&self, snapshot: &mut Snapshot, request: &Request) -> bool {
        let Some(ran) = &self.ran else { return false };
        let needs = request.needs;
        let trace = self.trace.as_ref().filter(|(inputs, epsilon, _)| {
            (inputs.features, &inputs.lambda, &inputs.keep)
                == (ran.inputs.features, &ran.inputs.lambda, &ran.inputs.keep)
                && *epsilon == request.compute.epsilon
        });
        snapshot.trace =
            trace.filter(|_| needs.trace && snapshot.landmarks > 0).map(|(_, _, t)| Arc::clone(t));
        let distances = self.distances.as_ref();
        let distances = distances
            .filter(|(version, lambda, _)| *version == ran.inputs.features && *lambda == ran.inputs.lambda);
        snapshot.distances = distances.filter(|_| needs.distances).map(|(_, _, d)| Arc::clone(d));
        let parity = self.parity.as_ref().filter(|(inputs, _)| *inputs == ran.inputs);
        snapshot.parity = parity.filter(|_| needs.parity).map(|(_, p)| Arc::clone(p));
        let key = relative_mask::GuardKey::of(request, &ran.inputs);
        let guard = self.guard.as_ref().filter(|(found, _)| key.as_ref() == Some(found));
        snapshot.guard = guard.filter(|_| needs.guard).map(|(_, guard)| Arc::clone(guard));
        let spread = self.diffusion_key(request);
        snapshot.diffusion = spread.as_ref().and_then(|key| self.diffusions.found(key));
        let missing = Needs {
            diffusion: spread.is_some() && snapshot.diffusion.is_none(),
            trace: needs.trace && snapshot.trace.is_none() && snapshot.landmarks > 0,
            distances: needs.distances && snapshot.distances.is_none(),
            parity: needs.parity && snapshot.parity.is_none() && snapshot.no_parity.is_none(),
            guard: needs.guard && key.is_some() && snapshot.guard.is_none(),
            ..Needs::default()
        };
        missing == Needs::default()
    }
}
