//! Our server, which can be killed and started again where it was.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testkit::real::Cadastre;

/// How long it may take to end in order.
const PATIENCE: Duration = Duration::from_mins(1);

/// A server that is up or down.
pub(super) struct Restarting {
    binary: PathBuf,
    data: PathBuf,
    flags: Vec<String>,
    server: Option<Cadastre>,
}

impl Restarting {
    pub(super) fn start(binary: &Path, data: &Path, flags: &[String]) -> Result<Self> {
        let mut flags = flags.to_vec();
        let given: Vec<_> = flags.iter().map(String::as_str).collect();
        let server = Cadastre::start(binary, data, &given)?;
        flags.push(format!("--listen={}", server.address()));
        Ok(Self { binary: binary.to_path_buf(), data: data.to_path_buf(), flags, server: Some(server) })
    }

    pub(super) fn server(&self) -> Result<&Cadastre> {
        self.server.as_ref().context("the server is down")
    }

    pub(super) fn kill(&mut self) -> Result<()> {
        self.server.take().context("the server is down")?.kill9()?;
        Ok(())
    }

    pub(super) fn again(&mut self) -> Result<()> {
        let flags: Vec<_> = self.flags.iter().map(String::as_str).collect();
        self.server = Some(Cadastre::start(&self.binary, &self.data, &flags)?);
        Ok(())
    }

    /// Ends it in order and starts it with that flag, in place of the one of the same name.
    pub(super) fn again_with(&mut self, flag: &str) -> Result<()> {
        let name = flag.split('=').next().unwrap_or_default();
        self.flags.retain(|own| own.split('=').next() != Some(name));
        self.flags.push(flag.to_owned());
        self.end()?;
        self.again()
    }

    /// Ends it in order.
    pub(super) fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        let mut server = self.server.take().context("the server is down")?;
        server.terminate()?;
        let status = server.wait(PATIENCE)?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }
}
