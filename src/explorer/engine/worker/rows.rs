//! The rows of the clicked query: their graph, its inputs, and their layers.

use super::features::{FeatureKey, Features};
use super::{Stop, Worker};
use crate::backend::{Program, Timings};
use crate::explorer::engine::layers::Painter;
use crate::explorer::engine::machine::{Machine, Stage, Window};
use crate::explorer::engine::ranges::{self, Scale};
use crate::explorer::engine::{Request, Shared};
use crate::explorer::settings::{Compute, Look, RowForm};
use crate::explorer::snapshot::{Inverse, Layer, LayerId};
use crate::graph::Graph;
use crate::kernels::linalg::row_affine;
use crate::mask::MaskSpec;
use crate::tensor::{DType, HostData, HostTensor, Tensor};
use crate::vision::grid::TokenGrid;
use crate::vision::scene::{self, MaskInputs, NoTwin, RowsAsked, SceneError, SceneOptions, narrow};
use glam::UVec2;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Tokens up to which whitened rows get exact ones beside them: all pairs are met for them.
const EXACT_TWIN_TOKENS: usize = 4096;

/// Tokens times landmarks up to which the f64 reference is asked for the same row.
const PARITY_PAIRS: usize = 2_000_000;

/// Tokens up to which the f64 reference is asked for whitened or exact rows, which meet all pairs.
const PARITY_ALL_PAIRS: usize = 1500;

/// What the graph of the rows depends on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RowKey {
    pub(super) compute: Compute,
    pub(super) masked: bool,
    pub(super) exact_rows: bool,
    pub(super) features: FeatureKey,
}

/// The rows of the clicked query.
pub(super) struct Rows {
    pub(super) key: RowKey,
    pub(super) graph: Graph,
    pub(super) stage: Stage,
    pub(super) features: Tensor,
    pub(super) queries: Option<Tensor>,
    pub(super) lambda: Tensor,
    pub(super) cells: Tensor,
    pub(super) keep: Option<Tensor>,
    pub(super) mask: Option<MaskInputs>,
    /// The mask whose table is on the device.
    pub(super) uploaded: MaskSpec,
    pub(super) row: Tensor,
    pub(super) exact_row: Option<Tensor>,
    pub(super) unmasked: Option<Tensor>,
    pub(super) status: Option<Tensor>,
    pub(super) exact: bool,
    pub(super) landmarks: u32,
    pub(super) no_twin: Option<NoTwin>,
    pub(super) notice: Option<String>,
    pub(super) sides: (u32, u32),
    pub(super) painters: HashMap<LayerId, Painter>,
    pub(super) parity: Option<ParityPainter>,
}

/// Paints numbers that come from the host: the difference from the reference.
pub(super) struct ParityPainter {
    pub(super) stage: Stage,
    pub(super) numbers: Tensor,
    pub(super) copy: Tensor,
    pub(super) painter: Painter,
}

/// What the rows were last computed for: nothing runs again while it stays the same.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Inputs {
    pub(super) features: u64,
    pub(super) query: UVec2,
    pub(super) lambda: Vec<f32>,
    pub(super) keep: Option<Vec<u8>>,
    pub(super) mask: MaskSpec,
    pub(super) profiled: bool,
}

pub(super) struct Ran {
    pub(super) inputs: Inputs,
    /// Weights of all keys under the mask of relative positions.
    pub(super) weights: Option<Arc<Vec<f32>>>,
    pub(super) row: Vec<Vec<f32>>,
    pub(super) exact: Option<Vec<Vec<f32>>>,
    pub(super) inverse: Vec<Inverse>,
    pub(super) timings: Timings,
}

impl Worker {
    pub(super) fn compute(
        &mut self,
        request: &Request,
        watch: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<(), Stop> {
        let compute = &request.compute;
        let features = self.features.as_ref().ok_or(Stop::GaveWay)?;
        let token = features.grid.token_at(request.query).map_err(SceneError::from)?;
        let keep = request.mask.keys(&features.grid, request.query);
        let mut options = compute.scene()?;
        scene::check(&options)?;
        let weights = weights_of(&compute.mask, &features.grid, token)?;
        let open = |key: usize| {
            let kept = keep.as_ref().is_none_or(|k| k[key] != 0);
            kept && weights.as_ref().is_none_or(|w| w[key] > 0.0)
        };
        if !(0..features.grid.tokens()).any(open) {
            return Err(Stop::SeesNothing);
        }
        let whitened = matches!(compute.form, RowForm::Row | RowForm::Col);
        options.whitened_twin_tokens = if keep.is_some() { 0 } else { EXACT_TWIN_TOKENS };
        let lambda = self.bandwidths(compute, &options)?;
        let features = self.features.as_mut().ok_or(Stop::GaveWay)?;
        let key = RowKey {
            // Of the mask it matters whether there is one: its numbers are an input.
            compute: Compute { lambda: None, mask: some_mask(&compute.mask), ..compute.clone() },
            masked: keep.is_some(),
            // Bare exact rows cost next to nothing; whitened ones only where a view asks for them.
            exact_rows: !whitened || request.needs.exact,
            features: features.key.clone(),
        };
        let machine = self.machine.as_ref().map(|(_, m)| m.clone()).ok_or(Stop::GaveWay)?;
        if self.rows.as_ref().is_none_or(|r| r.key != key) {
            (self.rows, self.ran) = (None, None);
            // They were found for rows of another kind, which their inputs do not tell.
            (self.trace, self.distances, self.parity) = (None, None, None);
            let rows = Rows::record(key, &options, features, &machine, &self.shared)?;
            self.rows = Some(rows);
        }
        let rows = self.rows.as_mut().ok_or(Stop::GaveWay)?;
        let inputs = Inputs {
            features: features.version,
            query: request.query,
            lambda,
            keep,
            mask: compute.mask.clone(),
            profiled: request.needs.passes,
        };
        if self.ran.as_ref().is_some_and(|r| r.inputs == inputs) {
            return Ok(());
        }
        if rows.stage.is_copied() {
            rows.stage.link(rows.features, &mut features.stage, features.features)?;
            if let (Some(input), Some(output)) = (rows.queries, features.queries) {
                rows.stage.link(input, &mut features.stage, output)?;
            }
        }
        let table = rows.mask.filter(|_| rows.uploaded != inputs.mask).and_then(|mask| mask.table);
        if let Some(table) = table {
            let numbers = scene::mask_table(&inputs.mask, &features.grid)?;
            rows.stage.program().write(table, &numbers)?;
            rows.uploaded = inputs.mask.clone();
        }
        rows.write(&inputs, token)?;
        let program = rows.stage.program();
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
        self.ran = Some(Ran { inputs, weights, row, exact, inverse, timings });
        Ok(())
    }
}

impl Rows {
    pub(super) fn record(
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
        let mask = scene::mask_inputs(&mut graph, options, &from.grid, 1)?;
        let ask = RowsAsked {
            features,
            queries,
            scale,
            lambda,
            cells,
            sides,
            keep,
            mask,
            exact: plan.exact,
            exact_rows,
        };
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
            mask,
            uploaded: MaskSpec::None,
            row: recorded.row,
            exact_row: recorded.exact_row,
            unmasked: recorded.unmasked,
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

    /// Gives the rows their inputs, all but the mask's table.
    fn write(&mut self, inputs: &Inputs, token: usize) -> Result<(), Stop> {
        let number = narrow("token", token)?;
        let tensors = (self.lambda, self.cells, self.keep, self.mask);
        write_inputs(self.stage.program(), tensors, inputs, number)
    }

    /// The rows without the mask `[head][token]`, where there is one.
    pub(super) fn read_unmasked(&mut self, tokens: usize) -> Result<Option<Vec<Vec<f32>>>, Stop> {
        let Some(tensor) = self.unmasked else { return Ok(None) };
        let numbers = self.stage.program().read(tensor)?.to_f32();
        Ok(Some(numbers.chunks(tokens.max(1)).map(<[f32]>::to_vec).collect()))
    }

    /// Paints what is asked for.
    pub(super) fn paint(
        &mut self,
        machine: &Machine,
        window: &Window,
        request: &Request,
        (row, fused): (&[Vec<f32>], &[f32]),
        (exact, unmasked): (Option<&[f32]>, Option<&[f32]>),
    ) -> Result<Vec<Layer>, Stop> {
        let look = &request.look;
        let mut wanted: Vec<(LayerId, (Tensor, Option<Tensor>), Scale)> = Vec::new();
        // Computed and exact share their colours, so that they can be compared by eye.
        let exact_shown = exact.filter(|_| request.needs.exact);
        let together: Vec<&[f32]> = std::iter::once(fused).chain(exact_shown).collect();
        let shared = ranges::scale(&together, look, false);
        if let (Some(values), Some(tensor)) = (unmasked, self.unmasked) {
            // Spread over all tokens, it would be dark in the colours of the few that the mask leaves.
            wanted.push((LayerId::Unmasked, (tensor, None), ranges::scale(&[values], look, false)));
        }
        wanted.push((LayerId::Map, (self.row, None), shared));
        if let (Some(values), Some(tensor)) = (exact_shown, self.exact_row) {
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
    pub(super) fn exact_pairs(&self, request: &Request) -> bool {
        let whitened = matches!(request.compute.form, RowForm::Row | RowForm::Col);
        whitened && (self.exact || self.exact_row.is_some())
    }

    /// Why the f64 reference is not asked for the same row.
    pub(super) fn parity_problem(&self, request: &Request, tokens: usize) -> Option<String> {
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
    pub(super) fn paint_difference(
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

/// Gives a program of rows their inputs, all but the mask's table: `(lambda, cells, keep, mask)`.
pub(super) fn write_inputs(
    program: &mut dyn Program,
    (lambda, cells, keep, mask): (Tensor, Tensor, Option<Tensor>, Option<MaskInputs>),
    inputs: &Inputs,
    token: u32,
) -> Result<(), Stop> {
    program.write(cells, &HostTensor::new([1, 5], HostData::U32(vec![0, 0, 1, token, token + 1]))?)?;
    let heads = narrow("heads", inputs.lambda.len())?;
    program.write(lambda, &HostTensor::f32([heads], inputs.lambda.clone())?)?;
    if let (Some(tensor), Some(keep)) = (keep, &inputs.keep) {
        program.write(tensor, &HostTensor::new(tensor.shape(), HostData::U8(keep.clone()))?)?;
    }
    if let Some(mask) = mask {
        program.write(mask.tokens, &HostTensor::new([1], HostData::U32(vec![token]))?)?;
    }
    Ok(())
}

/// A mask that stands for all that are not none.
fn some_mask(mask: &MaskSpec) -> MaskSpec {
    if *mask == MaskSpec::None { MaskSpec::None } else { MaskSpec::Causal }
}

/// Weights of all keys for a query; `None` without a mask.
pub(super) fn weights_of(
    mask: &MaskSpec,
    grid: &TokenGrid,
    token: usize,
) -> Result<Option<Arc<Vec<f32>>>, Stop> {
    if *mask == MaskSpec::None {
        return Ok(None);
    }
    let sides = [narrow("grid rows", grid.rows())?, narrow("grid columns", grid.cols())?];
    Ok(Some(Arc::new(mask.row(&sides, narrow("token", token)?)?)))
}

pub(super) fn inverse(numbers: &[f32]) -> Inverse {
    Inverse { residual: numbers[0], row_sum: numbers[1], steps: numbers[2] as u32, code: numbers[3] as u32 }
}

/// What a failed or rescued inverse means for the map.
pub(super) fn inverse_notice(inverse: &[Inverse]) -> Option<String> {
    match inverse.iter().map(|i| i.code).max()? {
        0 => None,
        1 => Some("Newton–Schulz did not converge in a head: Cholesky took over".into()),
        2 => Some("the landmark matrix is nearly singular in a head: ε was raised tenfold there".into()),
        _ => Some("the landmark matrix could not be inverted in a head: raise ε".into()),
    }
}

/// Landmark cells on the token grid: first and end row, first and end column.
pub(super) fn landmark_cells(compute: &Compute, grid: &TokenGrid) -> Result<Vec<[u32; 4]>, Stop> {
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
