//! `cadastre-cni`: the CNI plugin. Reads the environment and stdin, prints what the library says.

use std::io::{self, Read, Write};
use std::panic;
use std::process::ExitCode;

use cni::failure::{Code, Failure};
use cni::plugin::{self, Outcome};
use cni::version::Version;

/// No configuration is longer, in bytes.
const LONGEST_CONF: u64 = 4 << 20;

fn main() -> ExitCode {
    // Whatever goes wrong, a runtime reads JSON on stdout. A panic is a fault of ours; this is the last net.
    panic::set_hook(Box::new(|_| {}));
    let outcome = panic::catch_unwind(|| plugin::run(variable, stdin)).unwrap_or_else(|_| {
        // What it had done until then nobody knows. Every call may be made again, and finds what the one before did.
        let failure = Failure::new(Code::Internal, "cadastre-cni has a fault and stopped").with(
            "what the call was to do may be done or not: the same call again finds what was, and a DEL takes it back",
        );
        Outcome::failure(&failure, Version::NEWEST)
    });
    let mut stdout = outcome.stdout;
    if !stdout.is_empty() {
        // With the line ended, all of it goes out in one write.
        stdout.push('\n');
    }
    let printed = io::stdout().write_all(stdout.as_bytes());
    let told = io::stderr().write_all(outcome.stderr.as_bytes());
    // An answer that nobody can have read is none; the runtime asks again, and is given the same.
    if outcome.is_success && printed.and(told).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn variable(name: &str) -> String {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()).unwrap_or_default()
}

fn stdin() -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(4096);
    io::stdin().lock().take(LONGEST_CONF).read_to_end(&mut text)?;
    Ok(text)
}
