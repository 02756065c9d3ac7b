//! Masked linear attention of all tokens under the mask of relative positions: which way it goes on the device, and how many rows
//! its noise guard flags.

use super::features::Features;
use super::rows::Inputs;
use super::{Stop, Worker};
use crate::attention::{FeatureMap, Mask, MaskedAttention, Masks};
use crate::explorer::engine::Request;
use crate::explorer::engine::machine::Machine;
use crate::explorer::settings::Compute;
use crate::explorer::snapshot::{Guard, MaskWay};
use crate::graph::Graph;
use crate::kernel::Caps;
use crate::kernels::mask::path::{self, Path};
use crate::mask::MaskSpec;
use crate::tensor::{DType, HostData, HostTensor};
use crate::vision::grid::TokenGrid;
use crate::vision::scene::{self, narrow};
use std::sync::Arc;

/// Value columns that attention carries: a colour.
const COLUMNS: u32 = 3;

/// Estimated milliseconds up to which all heads are run for the guard's sake.
const MOST_MS: f64 = 4000.0;

/// Tokens up to which they are.
const MOST_TOKENS: usize = 16_384;

/// What the guard depends on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GuardKey {
    map: FeatureMap,
    mask: MaskSpec,
    features: u64,
    keep: Option<Vec<u8>>,
}

impl GuardKey {
    /// `None` where nothing is transformed: no mask, no feature map, or a mask of scans.
    pub(super) fn of(request: &Request, inputs: &Inputs) -> Option<Self> {
        let compute = &request.compute;
        let table = matches!(compute.mask, MaskSpec::Toeplitz(_) | MaskSpec::Stencil(_));
        let map = compute.feature_map().filter(|_| table)?;
        let (mask, keep) = (compute.mask.clone(), inputs.keep.clone());
        Some(Self { map, mask, features: inputs.features, keep })
    }
}

fn sides(grid: &TokenGrid) -> Result<[u32; 2], Stop> {
    Ok([narrow("grid rows", grid.rows())?, narrow("grid columns", grid.cols())?])
}

/// Which way masked attention of these tokens goes; `None` without a mask.
pub(super) fn way(compute: &Compute, from: &Features, machine: &Machine) -> Result<Option<MaskWay>, Stop> {
    if compute.mask == MaskSpec::None {
        return Ok(None);
    }
    let Some(map) = compute.feature_map() else { return Ok(Some(MaskWay::NoFeatures)) };
    let features = map.features(from.features.dim(3))?;
    let Mask::Table { table, .. } = Mask::from_spec(&compute.mask, &sides(&from.grid)?)? else {
        return Ok(Some(MaskWay::Scan));
    };
    let Some(caps) = machine.caps() else { return Ok(Some(MaskWay::Reference)) };
    let (tokens, support) = (f64::from(table.tokens()), table.support().volume() as f64);
    let crossover = crossover(caps, (support < tokens).then_some(support), features);
    let attention = MaskedAttention::of(Mask::table(table));
    let Some(plan) = attention.plan(caps, features, COLUMNS) else { return Ok(Some(MaskWay::Scan)) };
    Ok(Some(MaskWay::Table { plan, crossover, features, columns: COLUMNS }))
}

/// Tokens of the smallest square grid on which transforms cost less, of sides in steps of about a fifth up to 1024; `support` keys per
/// query where a mask ends within the grid.
fn crossover(caps: &Caps, support: Option<f64>, features: u32) -> Option<u64> {
    let mut side = 4;
    while side <= 1024 {
        let tokens = f64::from(side * side);
        let pairs = tokens * support.unwrap_or(tokens).min(tokens);
        if path::plan(caps, [1, side, side], pairs, features, COLUMNS).chosen == Path::Fourier {
            return Some(u64::from(side * side));
        }
        side += (side / 5).max(1);
    }
    None
}

impl Worker {
    /// Runs masked attention of all tokens, and keeps what its noise guard says.
    pub(super) fn make_guard(
        &mut self,
        request: &Request,
        watch: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<(), Stop> {
        let Some(inputs) = self.ran.as_ref().map(|ran| ran.inputs.clone()) else { return Ok(()) };
        let Some(key) = GuardKey::of(request, &inputs) else { return Ok(()) };
        if self.guard.as_ref().is_some_and(|(found, _)| *found == key) {
            return Ok(());
        }
        let measured = match request.live {
            // Every picture would wait for it.
            true => Ok(Guard::NotMeasured("the picture moves".into())),
            false => self.measure(request, &key, watch),
        };
        let guard = match measured {
            // The map itself is there: what cannot be measured is no failure of it.
            Err(Stop::Failed(why)) => Guard::NotMeasured(why),
            other => other?,
        };
        self.guard = Some((key, Arc::new(guard)));
        Ok(())
    }

    fn measure(
        &mut self,
        request: &Request,
        key: &GuardKey,
        watch: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<Guard, Stop> {
        let machine = self.machine()?;
        let from = self.features.as_mut().ok_or(Stop::GaveWay)?;
        let Some(caps) = machine.caps() else {
            return Ok(Guard::NotMeasured("the reference goes pair by pair".into()));
        };
        let shape = from.features.shape();
        let [heads, tokens, d] = [1, 2, 3].map(|axis| shape.dims().get(axis).copied().unwrap_or(0));
        let mask = Mask::from_spec(&key.mask, &sides(&from.grid)?)?;
        let attention = MaskedAttention::of(mask);
        let Some(plan) = attention.plan(caps, key.map.features(d)?, COLUMNS) else {
            return Ok(Guard::NotMeasured("scans have no noise to guard against".into()));
        };
        let all_ms = f64::from(heads) * plan.fourier_ms;
        if tokens as usize > MOST_TOKENS || all_ms > MOST_MS {
            let seconds = crate::numbers::seconds(1e-3 * all_ms);
            return Ok(Guard::NotMeasured(format!("transforms of all heads would take about {seconds}")));
        }
        let forced = plan.chosen != Path::Fourier;
        let attention = MaskedAttention { path: Path::Fourier, ..attention };

        let mut graph = Graph::new("masked attention");
        let features = graph.input("features", shape, DType::F32);
        let queries = from.queries.map(|q| graph.input("queries", q.shape(), DType::F32));
        let values = graph.input("values", [1, heads, tokens, COLUMNS], DType::F32);
        let keep = key.keep.as_ref().map(|_| graph.input("keys that may be seen", [1, 1, tokens], DType::U8));
        let scale = queries.map(|q| 1.0 / (q.dim(3) as f32).sqrt());
        let pair = (queries.unwrap_or(features), features);
        let (q, k) = scene::record_mapped(&mut graph, key.map, pair, scale, keep)?;
        let attended = attention.record(&mut graph, (q, k, values), Masks { keys: keep, queries: None })?;
        graph.output(attended.out)?;
        let Some(status) = attended.status else {
            return Ok(Guard::NotMeasured("scans have no noise to guard against".into()));
        };
        graph.output(status)?;
        let mut stage = machine.stage(&graph, &mut |done, all| {
            watch(done, all);
        })?;
        stage.link(features, &mut from.stage, from.features)?;
        if let (Some(input), Some(output)) = (queries, from.queries) {
            stage.link(input, &mut from.stage, output)?;
        }
        let colours = colours(request, &from.grid, heads);
        stage.program().write(values, &HostTensor::f32(values.shape(), colours)?)?;
        if let (Some(tensor), Some(keep)) = (keep, &key.keep) {
            stage.program().write(tensor, &HostTensor::new(tensor.shape(), HostData::U8(keep.clone()))?)?;
        }
        if stage.run(watch)?.is_none() {
            return Err(Stop::GaveWay);
        }
        let counts = stage.program().read(status)?.to_f64();
        let count = |at: usize| counts.get(at).copied().unwrap_or(0.0) as u64;
        Ok(Guard::Measured { flagged: count(0), rows: count(1), forced })
    }
}

/// The colour at the middle of every token, 0…1, the same for all heads: `[heads, tokens, 3]`.
fn colours(request: &Request, grid: &TokenGrid, heads: u32) -> Vec<f32> {
    let picture = request.photo.display(1024);
    let (width, height) = picture.picture.dimensions();
    let reduction = picture.reduction();
    let token = |t: usize| {
        let middle = grid.token_rect(t).map(|rect| rect.centre() / reduction).unwrap_or_default();
        let at = |x: f64, side: u32| (x.max(0.0) as u32).min(side.saturating_sub(1));
        let pixel = picture.picture.get_pixel(at(middle.x, width), at(middle.y, height)).0;
        [0, 1, 2].map(|c| f32::from(pixel[c]) / 255.0)
    };
    let one: Vec<f32> = (0..grid.tokens()).flat_map(token).collect();
    one.repeat(heads as usize)
}
