//! What the daemon needs of the engine.
//!
//! Invariant: the daemon reaches the engine through this trait alone, so that it can be tested against a scripted one. Each
//! method is the engine's method of the same name.

use crate::engine::{Engine, EngineError, Hold, Running, Waiting, Write, Written};
use crate::model::{
    Answer, BackendInfo, Chunk, EndedBy, Event, Exec, Finding, HostKeyChange, HostKeys, Kept, LogRead, Overview, ProcessInfo,
    SessionDetail, SessionInfo, Told, Who,
};
use std::future::Future;
use std::time::Duration;
use tokio::sync::{broadcast, mpsc};

/// The engine, or a double of it.
#[expect(missing_docs, reason = "each method is the engine's method of the same name")]
pub trait Service: Clone + Send + Sync + 'static {
    fn events(&self) -> broadcast::Receiver<Event>;
    fn exec(
        &self,
        who: Who,
        exec: Exec,
        stdin: Option<mpsc::Receiver<Vec<u8>>>,
    ) -> impl Future<Output = Result<Running, EngineError>> + Send;
    fn end(&self, process: &str, by: EndedBy, grace: Duration) -> impl Future<Output = Result<ProcessInfo, EngineError>> + Send;
    fn signal(&self, process: &str, signal: i32) -> impl Future<Output = Result<(ProcessInfo, Vec<u32>), EngineError>> + Send;
    fn find(&self, backend: &str, operator: bool) -> impl Future<Output = Result<(Vec<ProcessInfo>, Vec<u32>), EngineError>> + Send;
    fn adopt(&self, who: &Who, process: &str) -> impl Future<Output = Result<ProcessInfo, EngineError>> + Send;
    fn send(&self, who: &Who, process: &str, write: Write) -> impl Future<Output = Result<Written, EngineError>> + Send;
    fn wants_input(&self, process: &str) -> impl Future<Output = Result<bool, EngineError>> + Send;
    fn recheck(&self, process: &str) -> impl Future<Output = Result<ProcessInfo, EngineError>> + Send;
    fn overview(&self) -> Overview;
    fn process(&self, process: &str) -> Result<ProcessInfo, EngineError>;
    fn read(&self, read: LogRead) -> impl Future<Output = Result<Chunk, EngineError>> + Send;
    fn grown(&self, process: &str, offset: u64) -> impl Future<Output = Result<(), EngineError>> + Send;
    fn hold(&self, process: &str, offset: u64) -> Result<Hold, EngineError>;
    fn kept(&self, process: &str, offset: u64) -> impl Future<Output = Result<Option<Kept>, EngineError>> + Send;
    fn log_file(&self, process: &str) -> Result<Option<String>, EngineError>;
    fn ended(&self, process: &str) -> impl Future<Output = Result<ProcessInfo, EngineError>> + Send;
    fn waits(&self, process: &str) -> Result<Waiting, EngineError>;
    fn told(&self, process: &str, after: Option<u64>) -> impl Future<Output = Result<Told, EngineError>> + Send;
    fn connect(&self, backend: &str, operator: bool) -> impl Future<Output = Result<BackendInfo, EngineError>> + Send;
    fn answer(&self, id: u64, answer: Answer) -> Result<(), EngineError>;
    fn host_keys(&self, backend: &str, look: bool) -> impl Future<Output = Result<HostKeys, EngineError>> + Send;
    fn change_host_keys(
        &self,
        backend: &str,
        change: HostKeyChange,
        fingerprint: &str,
    ) -> impl Future<Output = Result<HostKeys, EngineError>> + Send;
    fn disconnect(&self, backend: &str) -> impl Future<Output = Result<BackendInfo, EngineError>> + Send;
    fn session_show(&self, backend: Option<&str>, session: Option<&str>)
    -> impl Future<Output = Result<SessionDetail, EngineError>> + Send;
    fn session_reset(&self, backend: Option<&str>, session: Option<&str>) -> impl Future<Output = Result<SessionInfo, EngineError>> + Send;
    fn session_close(&self, backend: Option<&str>, session: Option<&str>) -> impl Future<Output = Result<SessionInfo, EngineError>> + Send;
    fn complete(
        &self,
        backend: &str,
        session: &str,
        word: &str,
        command: bool,
    ) -> impl Future<Output = Result<Vec<String>, EngineError>> + Send;
    fn set_client_env(&self, env: Vec<(String, String)>);
    fn set_watchers(&self, count: usize);
    fn reload(&self, config: crate::config::Config) -> impl Future<Output = Result<(), EngineError>> + Send;
    fn running(&self) -> Vec<ProcessInfo>;
    fn doctor(&self, backend: &str, tell: mpsc::Sender<Finding>) -> impl Future<Output = Result<(), EngineError>> + Send;
    fn shutdown(&self) -> impl Future<Output = ()> + Send;
}

impl Service for Engine {
    fn events(&self) -> broadcast::Receiver<Event> {
        self.events()
    }
    async fn exec(&self, who: Who, exec: Exec, stdin: Option<mpsc::Receiver<Vec<u8>>>) -> Result<Running, EngineError> {
        self.exec(who, exec, stdin).await
    }
    async fn end(&self, process: &str, by: EndedBy, grace: Duration) -> Result<ProcessInfo, EngineError> {
        self.end(process, by, grace).await
    }
    async fn signal(&self, process: &str, signal: i32) -> Result<(ProcessInfo, Vec<u32>), EngineError> {
        self.signal(process, signal).await
    }
    async fn find(&self, backend: &str, operator: bool) -> Result<(Vec<ProcessInfo>, Vec<u32>), EngineError> {
        self.find(backend, operator).await
    }
    async fn adopt(&self, who: &Who, process: &str) -> Result<ProcessInfo, EngineError> {
        self.adopt(who, process).await
    }
    async fn send(&self, who: &Who, process: &str, write: Write) -> Result<Written, EngineError> {
        self.send(who, process, write).await
    }
    async fn wants_input(&self, process: &str) -> Result<bool, EngineError> {
        self.wants_input(process).await
    }
    async fn recheck(&self, process: &str) -> Result<ProcessInfo, EngineError> {
        self.recheck(process).await
    }
    fn overview(&self) -> Overview {
        self.overview()
    }
    fn process(&self, process: &str) -> Result<ProcessInfo, EngineError> {
        self.process(process)
    }
    async fn read(&self, read: LogRead) -> Result<Chunk, EngineError> {
        self.read(read).await
    }
    async fn grown(&self, process: &str, offset: u64) -> Result<(), EngineError> {
        self.grown(process, offset).await
    }
    fn hold(&self, process: &str, offset: u64) -> Result<Hold, EngineError> {
        self.hold(process, offset)
    }
    async fn kept(&self, process: &str, offset: u64) -> Result<Option<Kept>, EngineError> {
        self.kept(process, offset).await
    }
    fn log_file(&self, process: &str) -> Result<Option<String>, EngineError> {
        self.log_file(process)
    }
    async fn ended(&self, process: &str) -> Result<ProcessInfo, EngineError> {
        self.ended(process).await
    }
    fn waits(&self, process: &str) -> Result<Waiting, EngineError> {
        self.waits(process)
    }
    async fn told(&self, process: &str, after: Option<u64>) -> Result<Told, EngineError> {
        self.told(process, after).await
    }
    async fn connect(&self, backend: &str, operator: bool) -> Result<BackendInfo, EngineError> {
        self.connect(backend, operator).await
    }
    fn answer(&self, id: u64, answer: Answer) -> Result<(), EngineError> {
        self.answer(id, answer)
    }
    async fn host_keys(&self, backend: &str, look: bool) -> Result<HostKeys, EngineError> {
        self.host_keys(backend, look).await
    }
    async fn change_host_keys(&self, backend: &str, change: HostKeyChange, fingerprint: &str) -> Result<HostKeys, EngineError> {
        self.change_host_keys(backend, change, fingerprint).await
    }
    async fn disconnect(&self, backend: &str) -> Result<BackendInfo, EngineError> {
        self.disconnect(backend).await
    }
    async fn session_show(&self, backend: Option<&str>, session: Option<&str>) -> Result<SessionDetail, EngineError> {
        self.session_show(backend, session).await
    }
    async fn session_reset(&self, backend: Option<&str>, session: Option<&str>) -> Result<SessionInfo, EngineError> {
        self.session_reset(backend, session).await
    }
    async fn session_close(&self, backend: Option<&str>, session: Option<&str>) -> Result<SessionInfo, EngineError> {
        self.session_close(backend, session).await
    }
    async fn complete(&self, backend: &str, session: &str, word: &str, command: bool) -> Result<Vec<String>, EngineError> {
        self.complete(backend, session, word, command).await
    }
    fn set_client_env(&self, env: Vec<(String, String)>) {
        self.set_client_env(env);
    }
    fn set_watchers(&self, count: usize) {
        self.set_watchers(count);
    }
    async fn reload(&self, config: crate::config::Config) -> Result<(), EngineError> {
        self.reload(config).await
    }
    fn running(&self) -> Vec<ProcessInfo> {
        self.running()
    }
    async fn doctor(&self, backend: &str, tell: mpsc::Sender<Finding>) -> Result<(), EngineError> {
        self.doctor(backend, tell).await
    }
    async fn shutdown(&self) {
        self.shutdown().await;
    }
}
