//! The engine's loop: what changed since the last request decides which stages run again.
//!
//! picture → features (again for another picture, patch or head count) → rows of the clicked query (again for another
//! query, λ, mask, landmark or normalisation) → layers (again for other colours). Numbers go from stage to stage on the
//! device; only statistics and the values under the pointer come back to the host.

use super::layers::Painter;
use super::machine::{Machine, Stage, Window};
use super::ranges::{self, Scale};
use super::{Answer, Request, Shared};
use crate::backend::{Memory, Timings};
use crate::error::Error;
use crate::explorer::analysis;
use crate::explorer::arrays_source::ModelArrays;
use crate::explorer::settings::{Compute, Device, Look, RowForm, Similarity};
use crate::explorer::snapshot::{Distances, Inverse, Layer, LayerId, Needs, Parity, Row, Snapshot, Trace};
use crate::graph::Graph;
use crate::kernels::linalg::row_affine;
use crate::tensor::{DType, HostData, HostTensor, Tensor};
use crate::vision::bandwidth::{DEFAULT_MEAN_KERNEL, MAX_LAMBDA_TOKENS, Metric, default_lambda};
use crate::vision::features::{FeatureBasis, FeatureOptions, sample_indices};
use crate::vision::grid::TokenGrid;
use crate::vision::image::{LinearImage, Photo};
use crate::vision::scene::{self, MapKernel, NoTwin, RowsAsked, SceneError, SceneOptions, narrow};
use glam::UVec2;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Tokens up to which whitened rows get exact ones beside them: all pairs are met for them.
const EXACT_TWIN_TOKENS: usize = 4096;

/// Tokens times landmarks up to which the f64 reference is asked for the same row.
const PARITY_PAIRS: usize = 2_000_000;

/// Tokens up to which the f64 reference is asked for whitened or exact rows, which meet all pairs.
const PARITY_ALL_PAIRS: usize = 1500;

/// Pairs of tokens that distances are sampled from.
const SAMPLED_PAIRS: usize = 40_000;

/// Why a request has no answer.
#[derive(Debug)]
enum Stop {
    /// It was cancelled, or a newer one came.
    GaveWay,
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

/// What the features depend on, apart from the picture.
#[derive(Clone, Debug, PartialEq)]
struct FeatureKey {
    patch: u32,
    stride: u32,
    max_tokens: usize,
    heads: usize,
    size: UVec2,
    /// The arrays that stand in for features, by their place in memory.
    arrays: Option<usize>,
}

/// Where features come from.
enum Origin {
    Picture(Box<FeatureBasis>, LinearImage),
    Arrays(Arc<ModelArrays>),
}

/// The tokens of a picture.
struct Features {
    key: FeatureKey,
    photo: Arc<Photo>,
    grid: TokenGrid,
    origin: Origin,
    stage: Stage,
    /// Input of the picture; `None` for arrays.
    pixels: Option<Tensor>,
    features: Tensor,
    /// Queries, where they are not the features too.
    queries: Option<Tensor>,
    /// Counts pictures, for what is made from them.
    version: u64,
    host: Option<Arc<Vec<f32>>>,
    notices: Vec<String>,
}

/// What the graph of the rows depends on.
#[derive(Clone, Debug, PartialEq)]
struct RowKey {
    compute: Compute,
    masked: bool,
    exact_rows: bool,
    features: FeatureKey,
}

/// The rows of the clicked query.
struct Rows {
    key: RowKey,
    graph: Graph,
    stage: Stage,
    features: Tensor,
    queries: Option<Tensor>,
    lambda: Tensor,
    cells: Tensor,
    keep: Option<Tensor>,
    row: Tensor,
    exact_row: Option<Tensor>,
    status: Option<Tensor>,
    exact: bool,
    landmarks: u32,
    no_twin: Option<NoTwin>,
    notice: Option<String>,
    sides: (u32, u32),
    painters: HashMap<LayerId, Painter>,
    parity: Option<ParityPainter>,
}

/// Paints numbers that come from the host: the difference from the reference.
struct ParityPainter {
    stage: Stage,
    numbers: Tensor,
    copy: Tensor,
    painter: Painter,
}

/// What the rows were last computed for: nothing runs again while it stays the same.
#[derive(Clone, Debug, PartialEq)]
struct Inputs {
    features: u64,
    query: UVec2,
    lambda: Vec<f32>,
    keep: Option<Vec<u8>>,
    profiled: bool,
}

struct Ran {
    inputs: Inputs,
    row: Vec<Vec<f32>>,
    exact: Option<Vec<Vec<f32>>>,
    inverse: Vec<Inverse>,
    timings: Timings,
}

/// Bandwidths that were chosen from a picture.
struct Chosen {
    features: u64,
    similarity: Similarity,
    lambda: Vec<f32>,
}

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
                Ok(()) | Err(Stop::GaveWay) => {}
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
    }

    fn answer(&mut self, number: u64, request: &Request, since: Instant) -> Result<(), Stop> {
        let shared = Arc::clone(&self.shared);
        let mut watch = |done: usize, total: usize| shared.step(done, total, since);
        self.open(&request.device)?;
        self.shared.working_on("reading the picture", since);
        self.read_picture(request, &mut watch)?;
        self.shared.working_on("computing the map", since);
        self.compute(request, &mut watch)?;
        let mut snapshot = self.snapshot(number, request)?;
        snapshot.latency = since.elapsed();
        let later = request.needs.trace || request.needs.distances || request.needs.parity;
        let cached = self.attach(&mut snapshot, request);
        self.put(Answer::Found(Arc::new(snapshot.clone())));
        if !later || cached {
            return Ok(());
        }
        if request.needs.trace {
            self.shared.working_on("tracing the inverse", since);
            self.make_trace(request)?;
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
            self.make_parity(&mut snapshot, request, &mut watch)?;
        }
        self.attach(&mut snapshot, request);
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

    fn read_picture(
        &mut self,
        request: &Request,
        watch: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<(), Stop> {
        let compute = &request.compute;
        let key = FeatureKey {
            patch: compute.patch,
            stride: compute.stride,
            max_tokens: compute.max_tokens,
            heads: request.arrays.as_ref().map_or(compute.heads, |a| a.heads),
            size: request.photo.size(),
            arrays: request.arrays.as_ref().map(|a| Arc::as_ptr(a) as usize),
        };
        let same_key = self.features.as_ref().is_some_and(|f| f.key == key);
        if same_key && self.features.as_ref().is_some_and(|f| Arc::ptr_eq(&f.photo, &request.photo)) {
            return Ok(());
        }
        if let Some(arrays) = &request.arrays {
            return self.read_arrays(request, key, arrays, watch);
        }
        let options = compute.scene()?;
        let grid =
            TokenGrid::plan(key.size, key.patch, key.stride, key.max_tokens).map_err(SceneError::from)?;
        let image = request.photo.working(grid.working_size()).map_err(SceneError::from)?;
        let mut notices: Vec<String> = request.photo.notices().to_vec();
        notices.extend(grid.notice());
        self.versions += 1;
        let version = self.versions;
        let old = self.features.take().filter(|_| same_key);
        let (basis, mut stage, pixels, features) = match old {
            // A live picture keeps its first basis; another still has one of its own, which is part of the graph.
            Some(Features {
                origin: Origin::Picture(basis, _),
                stage,
                pixels: Some(pixels),
                features,
                ..
            }) if request.live => (basis, stage, pixels, features),
            _ => {
                let fit = FeatureOptions {
                    heads: options.heads,
                    head_dim: options.head_dim,
                    ..FeatureOptions::default()
                };
                let basis = FeatureBasis::fit(&image, &grid, &fit).map_err(SceneError::from)?;
                let (graph, pixels, features) = record_features(&basis, &grid, &image, &options)?;
                let shared = Arc::clone(&self.shared);
                let stage = self.machine()?.stage(&graph, &mut |done, all| {
                    shared.done.store(done, Ordering::Relaxed);
                    shared.total.store(all, Ordering::Relaxed);
                })?;
                self.rows = None;
                (Box::new(basis), stage, pixels, features)
            }
        };
        let shape = [narrow("rows", image.rows())?, narrow("columns", image.cols())?, 3];
        stage.program().write(pixels, &HostTensor::f32(shape, image.samples().to_vec())?)?;
        let finished = stage.run(watch)?.is_some();
        if !finished {
            return Err(Stop::GaveWay);
        }
        self.features = Some(Features {
            key,
            photo: Arc::clone(&request.photo),
            grid,
            origin: Origin::Picture(basis, image),
            stage,
            pixels: Some(pixels),
            features,
            queries: None,
            version,
            host: None,
            notices,
        });
        Ok(())
    }

    /// Takes queries and keys of the user's own model as the tokens of the picture.
    fn read_arrays(
        &mut self,
        request: &Request,
        key: FeatureKey,
        arrays: &Arc<ModelArrays>,
        watch: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<(), Stop> {
        let grid = TokenGrid::over(key.size, arrays.grid.0, arrays.grid.1).map_err(SceneError::from)?;
        let shape =
            [1, narrow("heads", arrays.heads)?, narrow("tokens", arrays.tokens)?, narrow("dim", arrays.dim)?];
        let mut graph = Graph::new("arrays");
        let [q, k] = ["q", "k"].map(|name| graph.input(name, shape, DType::F32));
        let copy = |graph: &mut Graph, name: &str, x| row_affine::record(graph, name, x, Default::default());
        let (queries, features) = (copy(&mut graph, "queries", q)?, copy(&mut graph, "keys", k)?);
        graph.output(queries)?;
        graph.output(features)?;
        let mut stage = self.machine()?.stage(&graph, &mut |_, _| {})?;
        stage.program().write(q, &HostTensor::f32(shape, arrays.q.clone())?)?;
        stage.program().write(k, &HostTensor::f32(shape, arrays.k.clone())?)?;
        if stage.run(watch)?.is_none() {
            return Err(Stop::GaveWay);
        }
        self.rows = None;
        self.versions += 1;
        self.features = Some(Features {
            key,
            photo: Arc::clone(&request.photo),
            grid,
            origin: Origin::Arrays(Arc::clone(arrays)),
            stage,
            pixels: None,
            features,
            queries: Some(queries),
            version: self.versions,
            host: None,
            notices: arrays.notices.clone(),
        });
        Ok(())
    }

    /// Bandwidths per head: as given, or chosen from the picture.
    fn bandwidths(&mut self, compute: &Compute, options: &SceneOptions) -> Result<Vec<f32>, Stop> {
        let features = self.features.as_ref().ok_or(Stop::GaveWay)?;
        if let Some(lambda) = compute.lambda {
            return Ok(vec![lambda; features.key.heads]);
        }
        let known = |c: &Chosen| c.features == features.version && c.similarity == compute.similarity;
        if let Some(chosen) = self.chosen.as_ref().filter(|c| known(c)) {
            return Ok(chosen.lambda.clone());
        }
        let lambda = features.bandwidths(options)?;
        self.chosen = Some(Chosen {
            features: features.version,
            similarity: compute.similarity,
            lambda: lambda.clone(),
        });
        Ok(lambda)
    }

    fn compute(
        &mut self,
        request: &Request,
        watch: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<(), Stop> {
        let compute = &request.compute;
        let features = self.features.as_ref().ok_or(Stop::GaveWay)?;
        let token = features.grid.token_at(request.query).map_err(SceneError::from)?;
        let keep = request.mask.keys(&features.grid, request.query);
        if keep.as_ref().is_some_and(|k| k.iter().all(|x| *x == 0)) {
            return Err(Stop::Failed(
                "the mask hides every token from the clicked one: erase some of it, or click elsewhere"
                    .into(),
            ));
        }
        let mut options = compute.scene()?;
        scene::check(&options)?;
        let whitened = matches!(compute.form, RowForm::Row | RowForm::Col);
        options.whitened_twin_tokens = if keep.is_some() { 0 } else { EXACT_TWIN_TOKENS };
        let lambda = self.bandwidths(compute, &options)?;
        let features = self.features.as_mut().ok_or(Stop::GaveWay)?;
        let key = RowKey {
            compute: Compute { lambda: None, ..compute.clone() },
            masked: keep.is_some(),
            // Bare exact rows cost next to nothing; whitened ones only where a view asks for them.
            exact_rows: !whitened || request.needs.exact,
            features: features.key.clone(),
        };
        let machine = self.machine.as_ref().map(|(_, m)| m.clone()).ok_or(Stop::GaveWay)?;
        if self.rows.as_ref().is_none_or(|r| r.key != key) {
            self.rows = None;
            self.ran = None;
            let rows = Rows::record(key, &options, features, &machine, &self.shared)?;
            self.rows = Some(rows);
        }
        let rows = self.rows.as_mut().ok_or(Stop::GaveWay)?;
        let inputs = Inputs {
            features: features.version,
            query: request.query,
            lambda,
            keep,
            profiled: request.needs.passes,
        };
        if self.ran.as_ref().is_some_and(|r| r.inputs == inputs) {
            return Ok(());
        }
        if rows.stage.is_cpu() {
            rows.stage.link(rows.features, &mut features.stage, features.features)?;
            if let (Some(input), Some(output)) = (rows.queries, features.queries) {
                rows.stage.link(input, &mut features.stage, output)?;
            }
        }
        let program = rows.stage.program();
        let number = narrow("token", token)?;
        let cells = HostTensor::new([1, 5], HostData::U32(vec![0, 0, 1, number, number + 1]))?;
        program.write(rows.cells, &cells)?;
        let heads = narrow("heads", inputs.lambda.len())?;
        program.write(rows.lambda, &HostTensor::f32([heads], inputs.lambda.clone())?)?;
        if let (Some(tensor), Some(keep)) = (rows.keep, &inputs.keep) {
            program.write(tensor, &HostTensor::new(tensor.shape(), HostData::U8(keep.clone()))?)?;
        }
        program.set_profiling(request.needs.passes);
        self.ran = None;
        let Some(timings) = rows.stage.run(watch)? else { return Err(Stop::GaveWay) };
        let tokens = features.grid.tokens();
        let split = |t: &HostTensor| t.to_f32().chunks(tokens.max(1)).map(<[f32]>::to_vec).collect();
        let row = split(&rows.stage.program().read(rows.row)?);
        let exact = match rows.exact_row {
            Some(tensor) => Some(split(&rows.stage.program().read(tensor)?)),
            None => None,
        };
        let inverse = match rows.status {
            Some(tensor) => {
                rows.stage.program().read(tensor)?.to_f32().chunks_exact(4).map(inverse).collect()
            }
            None => Vec::new(),
        };
        self.ran = Some(Ran { inputs, row, exact, inverse, timings });
        Ok(())
    }

    fn snapshot(&mut self, number: u64, request: &Request) -> Result<Snapshot, Stop> {
        let machine = self.machine()?;
        let (Some(features), Some(rows), Some(ran)) = (&mut self.features, &mut self.rows, &self.ran) else {
            return Err(Stop::GaveWay);
        };
        let look = &request.look;
        let fused = ranges::fused(&ran.row, look.fusion);
        let exact = ran.exact.as_ref().map(|heads| ranges::fused(heads, look.fusion));
        let layers = rows.paint(&machine, &self.window, request, (&ran.row, &fused), exact.as_deref())?;
        let mut memory = Memory::default();
        for part in [features.stage.program().memory(), rows.stage.program().memory()] {
            memory.transient += part.transient;
            memory.transient_unshared += part.transient_unshared;
            memory.external += part.external;
            memory.staging += part.staging;
        }
        let cells = match rows.exact {
            true => Vec::new(),
            false => landmark_cells(&request.compute, &features.grid)?,
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

    /// Adds what was found for the same inputs before; whether nothing that is needed is missing.
    fn attach(&self, snapshot: &mut Snapshot, request: &Request) -> bool {
        let Some(ran) = &self.ran else { return false };
        let needs = request.needs;
        let trace = self.trace.as_ref().filter(|(inputs, epsilon, _)| {
            (inputs.features, &inputs.lambda, &inputs.keep)
                == (ran.inputs.features, &ran.inputs.lambda, &ran.inputs.keep)
                && *epsilon == request.compute.epsilon
        });
        snapshot.trace = trace.filter(|_| needs.trace && !snapshot.exact).map(|(_, _, t)| Arc::clone(t));
        let distances = self.distances.as_ref();
        let distances = distances
            .filter(|(version, lambda, _)| *version == ran.inputs.features && *lambda == ran.inputs.lambda);
        snapshot.distances = distances.filter(|_| needs.distances).map(|(_, _, d)| Arc::clone(d));
        let parity = self.parity.as_ref().filter(|(inputs, _)| *inputs == ran.inputs);
        snapshot.parity = parity.filter(|_| needs.parity).map(|(_, p)| Arc::clone(p));
        let missing = Needs {
            trace: needs.trace && snapshot.trace.is_none() && !snapshot.exact,
            distances: needs.distances && snapshot.distances.is_none(),
            parity: needs.parity && snapshot.parity.is_none() && snapshot.no_parity.is_none(),
            ..Needs::default()
        };
        missing == Needs::default()
    }
}

impl Worker {
    /// Features `[h, n, d]` on the host, copied once per picture.
    fn host_features(&mut self) -> Result<(Arc<Vec<f32>>, [usize; 3]), Stop> {
        let features = self.features.as_mut().ok_or(Stop::GaveWay)?;
        let shape = [1, 2, 3].map(|axis| features.features.dim(axis) as usize);
        if features.host.is_none() {
            let numbers = features.stage.program().read(features.features)?.to_f32();
            features.host = Some(Arc::new(numbers));
        }
        features.host.clone().map(|numbers| (numbers, shape)).ok_or(Stop::GaveWay)
    }

    /// How the inverse of the landmark matrices converges on the device.
    fn make_trace(&mut self, request: &Request) -> Result<(), Stop> {
        let exact = self.rows.as_ref().is_none_or(|r| r.exact);
        let Some(inputs) = self.ran.as_ref().map(|r| r.inputs.clone()).filter(|_| !exact) else {
            return Ok(());
        };
        let (features, shape) = self.host_features()?;
        let grid = self.features.as_ref().map(|f| f.grid.clone()).ok_or(Stop::GaveWay)?;
        let cells = landmark_table(&request.compute, &grid)?;
        let metric = metric_of(request.compute.similarity);
        let epsilon = request.compute.epsilon;
        let a = landmark_matrices(&features, shape, &cells, &inputs, metric, epsilon)?;
        let backend: Box<dyn crate::backend::Backend> = match self.machine()? {
            Machine::Wgpu(backend, _) => Box::new(backend),
            Machine::Cpu => Box::new(crate::backend::cpu::CpuBackend),
        };
        let trace = analysis::trace(backend.as_ref(), &a, f64::from(epsilon))?;
        self.trace = Some((inputs, epsilon, Arc::new(trace)));
        Ok(())
    }

    fn make_distances(&mut self, request: &Request) -> Result<(), Stop> {
        let Some(inputs) = self.ran.as_ref().map(|r| r.inputs.clone()) else { return Ok(()) };
        let (features, shape) = self.host_features()?;
        let metric = metric_of(request.compute.similarity);
        let lambda = match request.compute.similarity {
            // Softmax has no bandwidth: the Laplacian's default stands in.
            Similarity::Softmax => {
                let laplacian =
                    Compute { similarity: Similarity::Laplacian, lambda: None, ..request.compute.clone() };
                let features = self.features.as_ref().ok_or(Stop::GaveWay)?;
                features.bandwidths(&laplacian.scene()?)?
            }
            _ => inputs.lambda.clone(),
        };
        let found = analysis::distances(&features, shape, metric, &lambda, SAMPLED_PAIRS);
        let found = found.map_err(|e| Stop::Failed(e.to_string()))?;
        self.distances = Some((inputs.features, inputs.lambda, Arc::new(found)));
        Ok(())
    }

    /// The same row by the f64 reference, and the difference as a picture.
    fn make_parity(
        &mut self,
        snapshot: &mut Snapshot,
        request: &Request,
        watch: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<(), Stop> {
        let Some(inputs) = self.ran.as_ref().map(|r| r.inputs.clone()) else { return Ok(()) };
        let (features, _) = self.host_features()?;
        let machine = self.machine()?;
        let (Some(rows), Some(ran)) = (&mut self.rows, &self.ran) else { return Ok(()) };
        if snapshot.no_parity.is_some() {
            return Ok(());
        }
        let watch_seconds = Instant::now();
        let mut stage = Machine::Cpu.stage(&rows.graph, &mut |_, _| {})?;
        let program = stage.program();
        program.write(rows.features, &HostTensor::f32(rows.features.shape(), features.to_vec())?)?;
        let from = self.features.as_ref().map(|f| &f.origin);
        if let (Some(input), Some(Origin::Arrays(arrays))) = (rows.queries, from) {
            program.write(input, &HostTensor::f32(input.shape(), arrays.q.clone())?)?;
        }
        let heads = narrow("heads", inputs.lambda.len())?;
        program.write(rows.lambda, &HostTensor::f32([heads], inputs.lambda.clone())?)?;
        let number = narrow("token", snapshot.query_token)?;
        program
            .write(rows.cells, &HostTensor::new([1, 5], HostData::U32(vec![0, 0, 1, number, number + 1]))?)?;
        if let (Some(tensor), Some(keep)) = (rows.keep, &inputs.keep) {
            program.write(tensor, &HostTensor::new(tensor.shape(), HostData::U8(keep.clone()))?)?;
        }
        if stage.run(watch)?.is_none() {
            return Err(Stop::GaveWay);
        }
        let truth = stage.program().read(rows.row)?.to_f64();
        let parity = parity_of(&ran.row, &truth, watch_seconds.elapsed().as_secs_f64());
        snapshot.layers.extend(rows.paint_difference(
            &machine,
            &self.window,
            &request.look,
            &parity.difference,
        )?);
        self.parity = Some((inputs, Arc::new(parity)));
        Ok(())
    }
}

/// How far the device's rows are from the reference's.
fn parity_of(rows: &[Vec<f32>], truth: &[f64], seconds: f64) -> Parity {
    let tokens = rows.first().map_or(0, Vec::len);
    let mut difference = Vec::with_capacity(rows.len());
    let (mut gap, mut size, mut largest, mut worst, mut at) = (0.0, 0.0, 0.0_f64, 0.0_f64, (0, 0));
    for (head, row) in rows.iter().enumerate() {
        let truth = &truth[head * tokens..][..tokens];
        let gaps = row.iter().zip(truth).enumerate().map(|(token, (x, y))| {
            let d = f64::from(*x) - y;
            gap += d * d;
            size += y * y;
            largest = largest.max(y.abs());
            if d.abs() > worst {
                (worst, at) = (d.abs(), (token, head));
            }
            d as f32
        });
        difference.push(gaps.collect());
    }
    let over = |x: f64, y: f64| if y > 0.0 { x / y } else { x };
    Parity { relative: over(gap.sqrt(), size.sqrt()), worst: over(worst, largest), at, difference, seconds }
}

fn metric_of(similarity: Similarity) -> Metric {
    match similarity {
        Similarity::Gaussian => Metric::SquaredL2,
        Similarity::Laplacian | Similarity::Softmax => Metric::L1,
    }
}

/// Cells of the landmarks on the grid they are pooled on, as the engine has them.
fn landmark_table(compute: &Compute, grid: &TokenGrid) -> Result<(Vec<[u32; 5]>, usize), Stop> {
    let (rows, cols) = (narrow("grid rows", grid.rows())?, narrow("grid columns", grid.cols())?);
    let landmarks = compute.landmarks();
    Ok(match landmarks {
        crate::attention::Landmarks::Segments { .. } => (landmarks.cells(1, rows * cols)?, grid.tokens()),
        _ => (landmarks.cells(rows, cols)?, grid.cols()),
    })
}

/// A = W + ε I per head, from the features on the host, in f64 but for the last rounding. Landmarks that the mask leaves
/// without a token are left out, as far as all heads allow: they are the same for all.
fn landmark_matrices(
    features: &[f32],
    [heads, tokens, d]: [usize; 3],
    (cells, cols): &(Vec<[u32; 5]>, usize),
    inputs: &Inputs,
    metric: Metric,
    epsilon: f32,
) -> Result<HostTensor, Stop> {
    let kept = |t: usize| inputs.keep.as_ref().is_none_or(|k| k[t] != 0);
    let members: Vec<Vec<usize>> = cells
        .iter()
        .map(|c| {
            let rows = c[1] as usize..c[2] as usize;
            let all = rows.flat_map(|r| (c[3] as usize..c[4] as usize).map(move |x| r * cols + x));
            all.filter(|t| kept(*t)).collect()
        })
        .filter(|m: &Vec<usize>| !m.is_empty())
        .collect();
    let m = members.len();
    let mut a = Vec::with_capacity(heads * m * m);
    for head in 0..heads {
        let token = |t: usize, c: usize| f64::from(features[(head * tokens + t) * d + c]);
        let mean =
            |cell: &Vec<usize>, c: usize| cell.iter().map(|t| token(*t, c)).sum::<f64>() / cell.len() as f64;
        let points: Vec<Vec<f64>> =
            members.iter().map(|cell| (0..d).map(|c| mean(cell, c)).collect()).collect();
        let lambda = f64::from(inputs.lambda[head]);
        for (i, p) in points.iter().enumerate() {
            for (j, q) in points.iter().enumerate() {
                let pairs = p.iter().zip(q);
                let distance: f64 = match metric {
                    Metric::L1 => pairs.map(|(x, y)| (x - y).abs()).sum(),
                    Metric::SquaredL2 => pairs.map(|(x, y)| (x - y) * (x - y)).sum(),
                };
                let diagonal = if i == j { f64::from(epsilon) } else { 0.0 };
                a.push(((-distance / lambda).exp() + diagonal) as f32);
            }
        }
    }
    let (heads, m) = (narrow("heads", heads)?, narrow("landmarks", m)?);
    Ok(HostTensor::f32([1, heads, m, m], a)?)
}

fn inverse(numbers: &[f32]) -> Inverse {
    Inverse { residual: numbers[0], row_sum: numbers[1], steps: numbers[2] as u32, code: numbers[3] as u32 }
}

/// What a failed or rescued inverse means for the map.
fn inverse_notice(inverse: &[Inverse]) -> Option<String> {
    match inverse.iter().map(|i| i.code).max()? {
        0 => None,
        1 => Some("Newton–Schulz did not converge in a head: Cholesky took over".into()),
        2 => Some("the landmark matrix is nearly singular in a head: ε was raised tenfold there".into()),
        _ => Some("the landmark matrix could not be inverted in a head: raise ε".into()),
    }
}

/// Landmark cells on the token grid: first and end row, first and end column.
fn landmark_cells(compute: &Compute, grid: &TokenGrid) -> Result<Vec<[u32; 4]>, Stop> {
    let (rows, cols) = (narrow("grid rows", grid.rows())?, narrow("grid columns", grid.cols())?);
    let segments = matches!(compute.landmarks(), crate::attention::Landmarks::Segments { .. });
    let place = |c: [u32; 5]| match segments {
        // The token in the middle of its segment.
        true => {
            let token = c[3] + (c[4] - c[3]) / 2;
            [token / cols, token / cols + 1, token % cols, token % cols + 1]
        }
        false => [c[1], c[2], c[3], c[4]],
    };
    Ok(compute.landmarks().cells(rows, cols)?.into_iter().map(place).collect())
}

fn record_features(
    basis: &FeatureBasis,
    grid: &TokenGrid,
    image: &LinearImage,
    options: &SceneOptions,
) -> Result<(Graph, Tensor, Tensor), Stop> {
    let mut graph = Graph::new("features");
    let shape = [narrow("rows", image.rows())?, narrow("columns", image.cols())?, 3];
    let pixels = graph.input("picture", shape, DType::F32);
    let shape = [
        1,
        narrow("heads", options.heads)?,
        narrow("tokens", grid.tokens())?,
        narrow("head_dim", options.head_dim)?,
    ];
    let features = graph.transient("features", shape, DType::F32);
    scene::record_features(&mut graph, basis, grid, pixels, features)?;
    graph.output(features)?;
    Ok((graph, pixels, features))
}

impl Features {
    /// Bandwidths per head such that the mean kernel value is 0.1 (1 for softmax, which has none).
    fn bandwidths(&self, options: &SceneOptions) -> Result<Vec<f32>, Stop> {
        let arrays = match &self.origin {
            Origin::Picture(basis, image) => {
                return Ok(scene::bandwidths(options, basis, image, &self.grid)?);
            }
            Origin::Arrays(arrays) => arrays,
        };
        let metric = match options.kernel {
            MapKernel::Softmax => return Ok(vec![1.0; arrays.heads]),
            MapKernel::Laplacian => Metric::L1,
            MapKernel::Gaussian => Metric::SquaredL2,
        };
        let tokens = sample_indices(arrays.tokens, MAX_LAMBDA_TOKENS);
        let row = |head: usize, token: usize| {
            &arrays.k[(head * arrays.tokens + token) * arrays.dim..][..arrays.dim]
        };
        let sample: Vec<f32> =
            (0..arrays.heads).flat_map(|h| tokens.iter().flat_map(move |t| row(h, *t))).copied().collect();
        let shape = [arrays.heads, tokens.len(), arrays.dim];
        let lambda = default_lambda(&sample, shape, metric, DEFAULT_MEAN_KERNEL).map_err(SceneError::from)?;
        Ok(lambda.into_iter().map(|x| x as f32).collect())
    }
}

impl Rows {
    fn record(
        key: RowKey,
        options: &SceneOptions,
        from: &mut Features,
        machine: &Machine,
        shared: &Shared,
    ) -> Result<Self, Stop> {
        let plan = scene::plan_rows(options, &from.grid)?;
        let mut graph = Graph::new("rows");
        let features = graph.input("features", from.features.shape(), DType::F32);
        let lambda = graph.input("lambda", [from.features.dim(1)], DType::F32);
        let cells = graph.input("query cells", [1, 5], DType::U32);
        let tokens = from.features.dim(2);
        let keep = key.masked.then(|| graph.input("keys that may be seen", [1, 1, tokens], DType::U8));
        let sides = (narrow("grid rows", from.grid.rows())?, narrow("grid columns", from.grid.cols())?);
        let exact_rows = plan.exact || (key.exact_rows && plan.no_twin.is_none());
        let queries = from.queries.map(|q| graph.input("queries", q.shape(), DType::F32));
        // The features of a picture carry d^−½; those of a model do not, and softmax wants q·k/√d.
        let scale = queries.map(|q| 1.0 / (q.dim(3) as f32).sqrt());
        let ask =
            RowsAsked { features, queries, scale, lambda, cells, sides, keep, exact: plan.exact, exact_rows };
        let recorded = scene::record_rows(&mut graph, options, &ask)?;
        let mut stage = machine.stage(&graph, &mut |done, all| {
            shared.done.store(done, Ordering::Relaxed);
            shared.total.store(all, Ordering::Relaxed);
        })?;
        stage.link(features, &mut from.stage, from.features)?;
        if let (Some(input), Some(output)) = (queries, from.queries) {
            stage.link(input, &mut from.stage, output)?;
        }
        Ok(Self {
            key,
            graph,
            stage,
            features,
            queries,
            lambda,
            cells,
            keep,
            row: recorded.row,
            exact_row: recorded.exact_row,
            status: recorded.status,
            exact: plan.exact,
            landmarks: plan.landmarks,
            no_twin: plan.no_twin,
            notice: plan.notice,
            sides,
            painters: HashMap::new(),
            parity: None,
        })
    }

    /// Paints what is asked for.
    fn paint(
        &mut self,
        machine: &Machine,
        window: &Window,
        request: &Request,
        (row, fused): (&[Vec<f32>], &[f32]),
        exact: Option<&[f32]>,
    ) -> Result<Vec<Layer>, Stop> {
        let look = &request.look;
        let mut wanted: Vec<(LayerId, (Tensor, Option<Tensor>), Scale)> = Vec::new();
        // Computed and exact share their colours, so that they can be compared by eye.
        let together: Vec<&[f32]> = std::iter::once(fused).chain(exact).collect();
        let shared = ranges::scale(&together, look, false);
        let alone = ranges::scale(&[fused], look, false);
        let map_scale = if request.needs.exact { shared } else { alone };
        wanted.push((LayerId::Map, (self.row, None), map_scale));
        if let (true, Some(values), Some(tensor)) = (request.needs.exact, exact, self.exact_row) {
            wanted.push((LayerId::Exact, (tensor, None), shared));
            let gap: Vec<f32> = fused.iter().zip(values).map(|(a, b)| a - b).collect();
            wanted.push((LayerId::Error, (self.row, Some(tensor)), ranges::scale(&[&gap], look, true)));
        }
        if request.needs.heads {
            let pictures: Vec<&[f32]> = row.iter().map(Vec::as_slice).collect();
            let all = ranges::scale(&pictures, look, false);
            for (head, picture) in pictures.iter().enumerate() {
                let scale = if look.same_range { all } else { ranges::scale(&[picture], look, false) };
                wanted.push((LayerId::Head(head), (self.row, None), scale));
            }
        }
        let sides = self.sides;
        let mut layers = Vec::new();
        for (id, tensors, scale) in wanted {
            if !self.painters.contains_key(&id) {
                let painter = Painter::new(id, machine, window, &mut self.stage, tensors, sides)?;
                self.painters.insert(id, painter);
            }
            if let Some(painter) = self.painters.get_mut(&id) {
                layers.push(painter.paint(window, &mut self.stage, tensors, look, scale)?);
            }
        }
        Ok(layers)
    }

    /// Whether a row of these settings meets all pairs of tokens.
    fn exact_pairs(&self, request: &Request) -> bool {
        let whitened = matches!(request.compute.form, RowForm::Row | RowForm::Col);
        whitened && (self.exact || self.exact_row.is_some())
    }

    /// Why the f64 reference is not asked for the same row.
    fn parity_problem(&self, request: &Request, tokens: usize) -> Option<String> {
        if self.exact_pairs(request) && tokens > PARITY_ALL_PAIRS {
            return Some(format!(
                "whitened exact rows meet all pairs of tokens: the reference is asked up to {PARITY_ALL_PAIRS} tokens, here {tokens}"
            ));
        }
        let pairs = tokens * (self.landmarks as usize).max(1);
        (pairs > PARITY_PAIRS).then(|| {
            format!("{pairs} pairs of token and landmark: the reference is asked up to {PARITY_PAIRS}")
        })
    }

    /// Paints `[head][token]` numbers of the host as the layer of parity.
    fn paint_difference(
        &mut self,
        machine: &Machine,
        window: &Window,
        look: &Look,
        difference: &[Vec<f32>],
    ) -> Result<Option<Layer>, Stop> {
        let look = Look { log: false, range: crate::explorer::settings::Range::Fit, ..look.clone() };
        let fused = ranges::fused(difference, look.fusion);
        let scale = ranges::scale(&[&fused], &look, true);
        if self.parity.is_none() {
            let mut graph = Graph::new("difference");
            let numbers = graph.input("difference", self.row.shape(), DType::F32);
            let flat = graph.reshape(numbers, [1, 1, self.row.dim(1), self.row.dim(2)])?;
            let copy = row_affine::record(&mut graph, "copy", flat, Default::default())?;
            graph.output(copy)?;
            let mut stage = machine.stage(&graph, &mut |_, _| {})?;
            let rows = (copy, None);
            // The layer wants rows as [1, heads, tokens, 1]: the same numbers in the same order.
            let painter = Painter::of_shape(
                LayerId::Parity,
                machine,
                window,
                &mut stage,
                (self.row.shape(), rows),
                self.sides,
            )?;
            self.parity = Some(ParityPainter { stage, numbers, copy, painter });
        }
        let Some(parity) = &mut self.parity else { return Ok(None) };
        let data = HostTensor::f32(parity.numbers.shape(), difference.concat())?;
        parity.stage.program().write(parity.numbers, &data)?;
        parity.stage.program().run()?;
        Ok(Some(parity.painter.paint(window, &mut parity.stage, (parity.copy, None), &look, scale)?))
    }
}
