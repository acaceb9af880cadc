//! A warm command over the protocol against the plain tool: `bash -c true` on this machine, `ssh` over a ControlMaster on an
//! ssh machine. The client's process start is not counted; that of bash and ssh is, since there is no other way to use them.

mod common;

use common::{Master, Times, compare, connect, exec, harness, quiet, run, say};
use harness::lab;
use std::process::Command;
use std::time::{Duration, Instant};

/// Between two measurements, so that what one leaves to be done does not fall into the next.
const REST: Duration = Duration::from_millis(20);
const ROUNDS: usize = 300;
const WARM_UP: usize = 20;

fn main() {
    run(1, |machines| {
        // As the command line does it.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
        runtime.block_on(async {
            local().await;
            if machines > 0 {
                ssh().await;
            }
        });
    });
}

/// Measures both in turns. `rest` false: one command right after the other, as a script does.
async fn turns(backend: &str, rest: bool, plain: &mut Command) -> (Times, Times) {
    let client = connect().await;
    let (mut ours, mut theirs) = (Times::default(), Times::default());
    for round in 0..ROUNDS + WARM_UP {
        if rest {
            tokio::time::sleep(REST).await;
        }
        let began = Instant::now();
        let (result, _) = exec(&client, backend, "true", false).await;
        let time = began.elapsed();
        assert_eq!(result.outcome.process_exit_code(), 0, "{result:?}");
        if rest {
            tokio::time::sleep(REST).await;
        }
        let plain_time = quiet(plain);
        if round >= WARM_UP {
            ours.add(time);
            theirs.add(plain_time);
        }
    }
    (ours, theirs)
}

async fn local() {
    let mut bash = Command::new("bash");
    bash.args(["-c", "true"]);
    let (ours, theirs) = turns("local", true, &mut bash).await;
    compare("warm `true` on local", &ours, "bash -c true", &theirs, "target: at most 1.0");
    let (ours, theirs) = turns("local", false, &mut bash).await;
    compare("the same without rest between commands", &ours, "bash -c true", &theirs, "for information");
}

async fn ssh() {
    let Some(machines) = lab::share(1) else { return };
    let machine = &machines[0];
    let master = Master::start(machine);
    let (ours, theirs) = turns(&machine.name, true, &mut master.command(&["true"])).await;
    compare("warm `true` over ssh", &ours, "ssh over a ControlMaster", &theirs, "target: at most 0.5");
    say("");
}
