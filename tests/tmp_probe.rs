mod support;
use wgattn::kernels::linalg::*;
use wgattn::kernels::linalg::newton_schulz as ns;
use wgattn::backend::{Backend,Program};
use wgattn::graph::Graph;
use wgattn::kernel::KernelParams;
use wgattn::tensor::*;
#[test]
fn loop_budget() {
    for (name, backend) in support::backends() {
        let n = 64*256*1100u32; // 70400*256 
        let mut g = Graph::new("t");
        let x = g.input("x", [1,1,n], DType::F32);
        let out = g.transient("o", [1,1,1], DType::F32);
        g.pass_bytes(&reduce_sum::SPEC, &[], &[Some(x), Some(out)]).unwrap();
        g.output(out).unwrap();
        let mut p = backend.compile(&g).unwrap();
        p.write(x, &HostTensor::f32([1,1,n], vec![1.0; n as usize]).unwrap()).unwrap();
        p.run().unwrap();
        println!("{name}: {:?} of {n}", p.read(out).unwrap().to_f64());
    }
}
fn spd(h: u32, m: u32) -> HostTensor {
    let d = Dims::of(&[("b",1),("h",h),("m",m)]);
    HostTensor::new([1,h,m,m], ns::data::spread(&d)).unwrap()
}
#[test]
fn times() {
    for (name, backend) in support::backends() {
        for m in [49u32, 64, 100, 196] {
            for route in ["expanded", "workgroup"] {
                let a0 = spd(8, m);
                let mut g = Graph::new("t");
                let a = g.input("a", [1,8,m,m], DType::F32);
                if route == "expanded" {
                    let (x, s) = ns::record(&mut g, "x", a, ns::Params::default()).unwrap();
                    g.output(x).unwrap(); g.output(s).unwrap();
                } else {
                    if !newton_schulz_workgroup::fits(m, backend.caps()) { continue; }
                    let x = g.transient("x", [1,8,m,m], DType::F32);
                    let r = g.transient("r", [1,8,1], DType::F32);
                    let b = g.transient("b", [1,8,2], DType::F32);
                    g.pass_bytes(&newton_schulz_workgroup::SPEC, &newton_schulz_workgroup::Params::default().to_bytes(), &[Some(a),Some(x),Some(r),Some(b)]).unwrap();
                    g.output(x).unwrap(); g.output(b).unwrap();
                }
                let mut p = backend.compile(&g).unwrap();
                p.write(a, &a0).unwrap();
                let mut w = vec![]; let mut c = vec![];
                for _ in 0..7 { let t = p.run().unwrap(); w.push(t.wall_seconds*1e3); c.push(t.cpu_seconds*1e3); }
                w.sort_by(f64::total_cmp); c.sort_by(f64::total_cmp);
                let steps = p.schedule().steps.len();
                p.set_profiling(true);
                let t = p.run().unwrap();
                let mut by: Vec<(String,f64,usize)> = vec![];
                for s in &t.steps { let k = format!("{}/{}", s.kernel, s.variant); match by.iter_mut().find(|b| b.0==k) { Some(b)=>{b.1+=s.seconds*1e3;b.2+=1}, None=>by.push((k,s.seconds*1e3,1)) } }
                println!("{name} m={m} {route}: {:.2} ms wall, {:.2} ms cpu, {steps} steps; {:?}", w[3], c[3], by);
            }
        }
    }
}
