//! Masks on networks in words: what `--mask` and `--graph` take.
//!
//! ```text
//! diffusion:t=10[,laplacian=combinatorial|symmetric|random-walk][,rtol=1e-4]       exp(−tL)
//! communicability:t=0.5[,rtol=1e-4]                                                exp(tA), up to a factor per component
//! walk:nodes=4,lambda=1,normalise=cosine[,walks=50,seed=0]                         discounted walks; sampled where walks is given
//! pagerank:restart=0.15[,rtol=1e-4]          steps:p=3
//! tree:rate=0.2                              tree:profile=inverse,size=8           along a spanning tree
//! spd:profile=exp,size=8[,hops=16]           by steps along edges, cut off after hops
//!
//! image[:sensitivity=8,reach=8,cut=0]    grid4    grid8    torus4    torus8
//! FILE[:numbering=zero|one|names,directed,nodes=9]                                 the options are for edge lists
//! ```
//!
//! Weights say how strongly nodes are joined, to all masks but `tree`: that takes a FILE's weights as lengths, and an image's colour
//! differences, so that `cut` has no meaning there. Its profiles exp and inverse fall with length, gauss, window and triangle with the number
//! of steps.

mod graph;
mod operator;
mod options;
mod words;

pub use graph::{GraphSpec, Tokens};
pub use operator::MadeMask;
pub use options::LEAST_RTOL;

use crate::mask::Profile;
use crate::topology::Laplacian;
use crate::topology::kernel::Normalisation;

/// A mask by nearness along edges, before it knows the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NetworkMaskSpec {
    /// exp(−tL).
    Diffusion {
        /// Time.
        t: f64,
        /// Which Laplacian.
        laplacian: Laplacian,
        /// Tolerance of the series.
        rtol: f64,
    },
    /// exp(tA) up to a factor per component.
    Communicability {
        /// Time.
        t: f64,
        /// Tolerance of the series.
        rtol: f64,
    },
    /// Discounted walks.
    Walk {
        /// Nodes of the longest walk.
        nodes: u32,
        /// Discount per step.
        lambda: f64,
        /// How the mask is made of the features.
        normalise: Normalisation,
        /// Number and seed of sampled walks; exact without.
        sampled: Option<(u32, u64)>,
    },
    /// Walkers that start again.
    PageRank {
        /// Probability of a new start.
        restart: f64,
        /// Tolerance of the sum.
        rtol: f64,
    },
    /// Walkers after a number of steps.
    Steps {
        /// Steps.
        p: u32,
    },
    /// By length along a spanning tree: exp(−rate · length).
    Tree {
        /// Rate per length.
        rate: f64,
    },
    /// By distance along a spanning tree, by a profile.
    TreeProfile {
        /// How weight falls.
        profile: Profile,
        /// How far it reaches.
        size: f64,
    },
    /// By steps along edges.
    ShortestPath {
        /// How weight falls.
        profile: Profile,
        /// How far it reaches, in steps.
        size: f64,
        /// Steps past which nothing is seen.
        hops: Option<u32>,
    },
}

/// A mask and the network it stands on.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkMask {
    /// The mask.
    pub spec: NetworkMaskSpec,
    /// Its network.
    pub graph: GraphSpec,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Network;

    #[test]
    fn what_is_written_is_read_again() {
        for text in [
            "diffusion:t=10",
            "diffusion:t=1e300",
            "tree:rate=3e-7",
            "diffusion:t=0,laplacian=random-walk,rtol=1e-6",
            "communicability:t=0.5",
            "walk:nodes=4,lambda=1,normalise=cosine",
            "walk:nodes=3,lambda=0.5,normalise=diag,walks=50,seed=7",
            "pagerank:restart=0.15",
            "steps:p=3",
            "tree:rate=0.2",
            "tree:profile=inverse,size=8",
            "spd:profile=exp,size=8",
            "spd:profile=gauss,size=2,hops=5",
        ] {
            let spec: NetworkMaskSpec = text.parse().expect(text);
            assert_eq!(spec.to_string(), text);
            assert!(NetworkMaskSpec::is_meant(text));
        }
        for text in [
            "image:sensitivity=8,reach=8",
            "image:sensitivity=0,reach=4,cut=0.5",
            "grid4",
            "torus8",
            "a/b.mtx",
            "c.csv:numbering=names",
            "c:/d.csv:numbering=one,directed,nodes=9",
            "e.csv:f",
        ] {
            assert_eq!(text.parse::<GraphSpec>().expect(text).to_string(), text);
        }
        assert_eq!("image".parse::<GraphSpec>().expect("image"), GraphSpec::default());
        assert!(!NetworkMaskSpec::is_meant("toeplitz:gauss"));
    }

    #[test]
    fn mistakes_are_told_with_what_would_do() {
        for (text, named) in [
            ("difusion:t=1", "diffusion:t=…"),
            ("difusion:t=1", "did you mean diffusion?"),
            ("diffusion", "at least 0"),
            ("diffusion:t=-1", "at least 0"),
            ("diffusion:t=nan", "at least 0"),
            ("diffusion:t=1,t=2", "each key once"),
            ("diffusion:t=1,rtol=2", "1e-7 to less than 1"),
            ("communicability:t=1,rtol=1", "1e-7 to less than 1"),
            ("diffusion:t=1,rtol=1e-15", "results are f32"),
            ("pagerank:rtol=9e-8", "results are f32"),
            ("pagerank:rtol=-1", "1e-7 to less than 1"),
            ("diffusion:t=1,laplacian=signless", "random-walk"),
            ("walk:normalise=softmax", "cosine"),
            ("walk:seed=3", "walks=…"),
            ("walk:walks=0", "at least 1"),
            ("pagerank:restart=0", "from 0.001"),
            ("steps", "whole number"),
            ("tree:rate=-1", "at least 0"),
            ("tree:profile=exp,size=0", "above 0"),
            ("tree:rate=1,size=2", "profile=…"),
            ("spd:profile=linear", "triangle"),
            ("spd:hops=-1", "whole number"),
        ] {
            let message = text.parse::<NetworkMaskSpec>().expect_err(text).to_string();
            assert!(message.contains(named), "{text}: {message}");
        }
        for (text, named) in [
            ("grid6", "torus8"),
            ("image:reach=6", "4 or 8"),
            ("image:sensitivity=-1", "from 0"),
            ("a.csv:numbering=two", "zero, one, names"),
            ("a.csv:nodes=many", "whole number"),
            ("a.csv:numbring=one", "numbering=…, directed"),
            ("a.csv:directed,way=1", "numbering=…, directed"),
        ] {
            let message = text.parse::<GraphSpec>().expect_err(text).to_string();
            assert!(message.contains(named), "{text}: {message}");
        }
    }

    #[test]
    fn fast_ways_are_the_mask_itself() {
        let (rows, cols) = (5, 6);
        let colours: Vec<f32> = (0..3 * rows * cols).map(|i| (i * 37 % 11) as f32 / 20.0).collect();
        let tokens = Tokens { rows, cols, colours: Some(&colours) };
        for graph in ["grid4", "grid8", "torus4", "torus8", "image", "image:sensitivity=3,reach=4,cut=0.3"] {
            for mask in [
                "diffusion:t=2,rtol=1e-7",
                "diffusion:t=2,laplacian=random-walk,rtol=1e-7",
                "communicability:t=0.3",
            ] {
                let (spec, graph): (NetworkMaskSpec, GraphSpec) =
                    (mask.parse().expect(mask), graph.parse().expect(graph));
                let plain =
                    spec.operator(&graph.network(&tokens).expect("a network")).expect(mask).operator.dense(0);
                let made = NetworkMask { spec, graph: graph.clone() }.operator(&tokens).expect(mask);
                let worst =
                    made.operator.dense(0).iter().zip(&plain).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                // Closed forms leave nothing out.
                assert!(worst < 2e-7, "{mask} on {graph}: {worst}");
            }
        }
    }

    #[test]
    fn trees_take_lengths_and_refuse_affinities() {
        let colours: Vec<f32> = (0..12).map(|i| i as f32 / 20.0).collect();
        let tokens = Tokens { rows: 2, cols: 2, colours: Some(&colours) };
        let on = |mask: &str, graph: &str| {
            let (spec, graph) = (mask.parse().expect(mask), graph.parse().expect(graph));
            NetworkMask { spec, graph }.operator(&tokens)
        };
        for mask in ["tree:rate=0.2", "tree:profile=gauss,size=2"] {
            let message = on(mask, "image:cut=0.25").expect_err(mask).to_string();
            assert!(message.contains("`cut`") && message.contains("0.25"), "{message}");
            assert_eq!(on(mask, "image").expect(mask).edges, 3);
        }
        assert!(on("spd:hops=1", "image:cut=0.25").is_ok());
        // Neighbours a step apart: exp(−0.2).
        let beside = on("tree:rate=0.2", "grid4").expect("a tree").operator.weight(0, 0, 1);
        assert!((beside - (-0.2_f64).exp()).abs() < 1e-6, "{beside}");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let tokens = Tokens { rows: 2, cols: 2, colours: None };
        let message = GraphSpec::default().network(&tokens).expect_err("no picture").to_string();
        assert!(message.contains("a picture"), "{message}");
        let empty = Network::isolated(0).expect("no nodes");
        for text in ["diffusion:t=1", "tree:rate=1", "spd:hops=2", "steps:p=1", "walk", "pagerank"] {
            let spec: NetworkMaskSpec = text.parse().expect(text);
            let message = spec.operator(&empty).expect_err(text).to_string();
            assert!(message.contains("at least 1"), "{text}: {message}");
            // One lone node sees itself.
            let lone = spec.operator(&Network::isolated(1).expect("a node")).expect(text).operator;
            assert!(lone.weight(0, 0, 0) > 0.0, "{text}");
        }
    }
}
