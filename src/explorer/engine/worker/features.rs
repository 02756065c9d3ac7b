//! The tokens of a picture, or of the arrays that stand in for them, and the bandwidths that suit them.

use super::{Stop, Worker};
use crate::explorer::arrays_source::ModelArrays;
use crate::explorer::engine::Request;
use crate::explorer::engine::machine::Stage;
use crate::explorer::settings::{Compute, Similarity};
use crate::graph::Graph;
use crate::kernels::linalg::row_affine;
use crate::tensor::{DType, HostTensor, Tensor};
use crate::vision::bandwidth::{DEFAULT_MEAN_KERNEL, MAX_LAMBDA_TOKENS, Metric, default_lambda};
use crate::vision::features::{FeatureBasis, FeatureOptions, sample_indices};
use crate::vision::grid::TokenGrid;
use crate::vision::image::{LinearImage, Photo};
use crate::vision::scene::{self, MapKernel, SceneError, SceneOptions, narrow};
use glam::UVec2;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What the features depend on, apart from the picture.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FeatureKey {
    pub(super) patch: u32,
    pub(super) stride: u32,
    pub(super) max_tokens: usize,
    pub(super) heads: usize,
    pub(super) size: UVec2,
    /// The arrays that stand in for features, by their place in memory.
    pub(super) arrays: Option<usize>,
}

/// Where features come from.
pub(super) enum Origin {
    Picture(Box<FeatureBasis>, LinearImage),
    Arrays(Arc<ModelArrays>),
}

/// The tokens of a picture.
pub(super) struct Features {
    pub(super) key: FeatureKey,
    pub(super) photo: Arc<Photo>,
    pub(super) grid: TokenGrid,
    pub(super) origin: Origin,
    pub(super) stage: Stage,
    /// Input of the picture; `None` for arrays.
    pub(super) pixels: Option<Tensor>,
    pub(super) features: Tensor,
    /// Queries, where they are not the features too.
    pub(super) queries: Option<Tensor>,
    /// Counts pictures, for what is made from them.
    pub(super) version: u64,
    pub(super) host: Option<Arc<Vec<f32>>>,
    pub(super) notices: Vec<String>,
}

/// Bandwidths that were chosen from a picture.
pub(super) struct Chosen {
    pub(super) features: u64,
    pub(super) similarity: Similarity,
    pub(super) lambda: Vec<f32>,
}

impl Worker {
    pub(super) fn read_picture(
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
    pub(super) fn read_arrays(
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
    pub(super) fn bandwidths(&mut self, compute: &Compute, options: &SceneOptions) -> Result<Vec<f32>, Stop> {
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

    /// Features `[h, n, d]` on the host, copied once per picture.
    pub(super) fn host_features(&mut self) -> Result<(Arc<Vec<f32>>, [usize; 3]), Stop> {
        let features = self.features.as_mut().ok_or(Stop::GaveWay)?;
        let shape = [1, 2, 3].map(|axis| features.features.dim(axis) as usize);
        if features.host.is_none() {
            let numbers = features.stage.program().read(features.features)?.to_f32();
            features.host = Some(Arc::new(numbers));
        }
        features.host.clone().map(|numbers| (numbers, shape)).ok_or(Stop::GaveWay)
    }
}

pub(super) fn record_features(
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
    pub(super) fn bandwidths(&self, options: &SceneOptions) -> Result<Vec<f32>, Stop> {
        let arrays = match &self.origin {
            Origin::Picture(basis, image) => {
                return Ok(scene::bandwidths(options, basis, image, &self.grid)?);
            }
            Origin::Arrays(arrays) => arrays,
        };
        let metric = match options.kernel {
            MapKernel::Softmax | MapKernel::Feature(_) => return Ok(vec![1.0; arrays.heads]),
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
