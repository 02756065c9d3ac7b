//! What is found out beside the map: the trace of the inverse, distances, and the f64 reference.

use super::features::Origin;
use super::rows::{Inputs, write_inputs};
use super::{Stop, Worker};
use crate::explorer::analysis;
use crate::explorer::engine::Request;
use crate::explorer::engine::machine::Machine;
use crate::explorer::settings::{Compute, Similarity};
use crate::explorer::snapshot::{Parity, Snapshot};
use crate::tensor::HostTensor;
use crate::vision::bandwidth::Metric;
use crate::vision::grid::TokenGrid;
use crate::vision::scene::{self, narrow};
use std::sync::Arc;
use std::time::Instant;

/// Pairs of tokens that distances are sampled from.
const SAMPLED_PAIRS: usize = 40_000;

impl Worker {
    /// How the inverse of the landmark matrices converges on the device.
    pub(super) fn make_trace(
        &mut self,
        request: &Request,
        watch: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<(), Stop> {
        let none = self.rows.as_ref().is_none_or(|r| r.landmarks == 0);
        let Some(inputs) = self.ran.as_ref().map(|r| r.inputs.clone()).filter(|_| !none) else {
            return Ok(());
        };
        let (features, shape) = self.host_features()?;
        let grid = self.features.as_ref().map(|f| f.grid.clone()).ok_or(Stop::GaveWay)?;
        let cells = landmark_table(&request.compute, &grid)?;
        let metric = metric_of(request.compute.similarity);
        let epsilon = request.compute.epsilon;
        let a = landmark_matrices(&features, shape, &cells, &inputs, metric, epsilon, watch)?;
        let backend: Arc<dyn crate::backend::Backend> = match self.machine()? {
            Machine::Wgpu(backend, _) => Arc::new(backend),
            Machine::Cpu => Arc::new(crate::backend::cpu::CpuBackend),
            Machine::Cuda(backend) => backend,
        };
        let trace = analysis::trace_watched(backend.as_ref(), &a, f64::from(epsilon), watch)?;
        let trace = trace.ok_or(Stop::GaveWay)?;
        self.trace = Some((inputs, epsilon, Arc::new(trace)));
        Ok(())
    }

    pub(super) fn make_distances(&mut self, request: &Request) -> Result<(), Stop> {
        let Some(inputs) = self.ran.as_ref().map(|r| r.inputs.clone()) else { return Ok(()) };
        let (features, shape) = self.host_features()?;
        let metric = metric_of(request.compute.similarity);
        let lambda = match request.compute.similarity {
            // Without a bandwidth the Laplacian's default stands in.
            similarity if !similarity.has_bandwidth() => {
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

    /// The same row by the f64 reference.
    pub(super) fn make_parity(
        &mut self,
        snapshot: &Snapshot,
        watch: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<(), Stop> {
        let Some(inputs) = self.ran.as_ref().map(|r| r.inputs.clone()) else { return Ok(()) };
        let (features, _) = self.host_features()?;
        let (Some(rows), Some(ran)) = (&self.rows, &self.ran) else { return Ok(()) };
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
        if let (Some(table), Some(features)) = (rows.mask.and_then(|mask| mask.table), &self.features) {
            program.write(table, &scene::mask_table(&inputs.mask, &features.grid)?)?;
        }
        let number = narrow("token", snapshot.query_token)?;
        write_inputs(program, (rows.lambda, rows.cells, rows.keep, rows.mask), &inputs, number)?;
        if stage.run(watch)?.is_none() {
            return Err(Stop::GaveWay);
        }
        let truth = stage.program().read(rows.row)?.to_f64();
        let parity = parity_of(&ran.row, &truth, watch_seconds.elapsed().as_secs_f64());
        self.parity = Some((inputs, Arc::new(parity)));
        Ok(())
    }

    /// Paints the difference from the reference, whether it was found now or before.
    pub(super) fn paint_parity(&mut self, snapshot: &mut Snapshot, request: &Request) -> Result<(), Stop> {
        let machine = self.machine()?;
        if let (Some(parity), Some(rows)) = (&snapshot.parity, &mut self.rows) {
            let layer = rows.paint_difference(&machine, &self.window, &request.look, &parity.difference)?;
            snapshot.layers.extend(layer);
        }
        Ok(())
    }
}

/// How far the device's rows are from the reference's.
pub(super) fn parity_of(rows: &[Vec<f32>], truth: &[f64], seconds: f64) -> Parity {
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

pub(super) fn metric_of(similarity: Similarity) -> Metric {
    match similarity {
        Similarity::Gaussian => Metric::SquaredL2,
        _ => Metric::L1,
    }
}

/// Cells of the landmarks on the grid they are pooled on, as the engine has them.
pub(super) fn landmark_table(compute: &Compute, grid: &TokenGrid) -> Result<(Vec<[u32; 5]>, usize), Stop> {
    let (rows, cols) = (narrow("grid rows", grid.rows())?, narrow("grid columns", grid.cols())?);
    let landmarks = compute.landmarks();
    Ok(match landmarks {
        crate::attention::Landmarks::Segments { .. } => (landmarks.cells(1, rows * cols)?, grid.tokens()),
        _ => (landmarks.cells(rows, cols)?, grid.cols()),
    })
}

/// A = W + ε I per head, from the features on the host, in f64 but for the last rounding. Landmarks that the mask leaves
/// without a token are left out, as far as all heads allow: they are the same for all.
pub(super) fn landmark_matrices(
    features: &[f32],
    [heads, tokens, d]: [usize; 3],
    (cells, cols): &(Vec<[u32; 5]>, usize),
    inputs: &Inputs,
    metric: Metric,
    epsilon: f32,
    watch: &mut dyn FnMut(usize, usize) -> bool,
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
        if !watch(head, heads) {
            return Err(Stop::GaveWay);
        }
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
