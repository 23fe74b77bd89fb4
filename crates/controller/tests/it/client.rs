//! A controller of a test's own, and a client that says requests word by word.

use std::future::pending;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use controller::{Audit, Catalog, Door, Metrics, Telling, answer, router};
use serde_json::Value;
use southbound::Publisher;
use store::{Embedded, Store};
use tempfile::TempDir;
use tls::Server;
use tokio::sync::oneshot;

/// A controller, as long as this lives.
pub struct Served {
    pub catalog: Arc<Catalog>,
    pub publisher: Arc<Publisher>,
    pub address: SocketAddr,
    audits: TempDir,
    _stop: oneshot::Sender<()>,
    _folder: Option<TempDir>,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Value,
}

impl Answer {
    /// The whole answer, once its connection is closed.
    pub fn read(mut stream: impl Read) -> Self {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let body = serde_json::from_str(body).unwrap_or(Value::Null);
        Self { status, head: head.replace("\r\n", "\n"), body }
    }

    /// Its ETag.
    pub fn tag(&self) -> String {
        let line = self.head.lines().find_map(|line| line.strip_prefix("etag: "));
        line.unwrap_or_else(|| panic!("no ETag: {self:?}")).to_owned()
    }

    /// All that it says is wrong: the object and the path of each.
    pub fn errors(&self) -> Vec<String> {
        let errors = self.body["errors"].as_array().cloned().unwrap_or_default();
        let word = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        errors.iter().map(|it| format!("{} {}", word(&it["object"]), word(&it["path"]))).collect()
    }

    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }
}

pub fn open(folder: &Path) -> Catalog {
    let home = Embedded::open(folder).unwrap();
    Catalog::open(Store::open(Box::new(home)).unwrap()).unwrap()
}

impl Served {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { _folder: None, ..Self::on(open(folder.path())) }.keeping(folder)
    }

    fn keeping(mut self, folder: TempDir) -> Self {
        self._folder = Some(folder);
        self
    }

    /// A controller of these objects, open to everybody.
    pub fn on(catalog: Catalog) -> Self {
        Self::behind(catalog, Arc::new(Door::Open))
    }

    /// A controller of these objects, for those that a door admits.
    pub fn behind(catalog: Catalog, door: Arc<Door>) -> Self {
        Self::encrypted(catalog, door, None)
    }

    /// The same, by connections that are encrypted if it is said how.
    pub fn encrypted(catalog: Catalog, door: Arc<Door>, tls: Option<Arc<Server>>) -> Self {
        let catalog = Arc::new(catalog);
        let audits = tempfile::tempdir().unwrap();
        let audit = Arc::new(Audit::open(audits.path()).unwrap());
        let metrics = Arc::new(Metrics::default());
        let mut telling = Telling::new(Arc::clone(&catalog), metrics, 7).unwrap();
        telling.begin().unwrap();
        let (progress, publisher) = (telling.progress().clone(), telling.publisher().clone());
        let router = router(Arc::clone(&catalog), progress, door, audit);
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                let renewed = async {
                    match &tls {
                        Some(tls) => match tls.follow().await {},
                        None => pending::<()>().await,
                    }
                };
                tokio::select! {
                    _ = stopped => {}
                    error = telling.go_on() => panic!("{error}"),
                    never = answer(listener, tls.clone(), router) => match never {},
                    () = renewed => {}
                }
            });
        });
        let address = told.recv().unwrap();
        Self { catalog, publisher, address, audits, _stop: stop, _folder: None }
    }

    /// Waits until what was written is computed.
    pub fn settle(&self) {
        let begun = Instant::now();
        while self.publisher.revision().0 < self.catalog.store().revision().0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "it is not computed");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What was recorded of writes.
    pub fn recorded(&self) -> Vec<Value> {
        self.lines("audit.jsonl")
    }

    /// What was recorded of writes that were refused.
    pub fn recorded_refusals(&self) -> Vec<Value> {
        self.lines("audit-refused.jsonl")
    }

    fn lines(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.audits.path().join(name)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Asks, and waits for the whole answer.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        Answer::read(self.begin(method, path, headers, body))
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }

    pub fn put(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.ask("PUT", path, headers, body)
    }

    pub fn apply(&self, query: &str, body: &str) -> Answer {
        self.ask("POST", &format!("/v1/apply{query}"), &[], body)
    }

    /// Sends a request without its body, which is so long.
    pub fn head(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        length: usize,
    ) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("content-length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream
    }

    fn begin(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> BufReader<TcpStream> {
        let mut stream = self.head(method, path, headers, body.len());
        // Who refuses a body that is too long does not read it to its end.
        let _ = stream.write_all(body.as_bytes());
        BufReader::new(stream)
    }

    /// Watches.
    pub fn watch(&self, path: &str, headers: &[(&str, &str)]) -> Watch {
        Watch(self.begin("GET", path, headers, ""))
    }
}

/// Events as they come.
pub struct Watch(BufReader<TcpStream>);

impl Watch {
    /// The next event, and its data. `None`: there are no more.
    pub fn event(&mut self) -> Option<(String, Value)> {
        let mut event = String::new();
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some(word) = line.strip_prefix("event: ") {
                event = word.trim().to_owned();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some((event, serde_json::from_str(data).unwrap()));
            }
        }
    }

    /// The next event in short: `put web 2`, `bookmark 2`. `None`: there are no more.
    pub fn next(&mut self) -> Option<String> {
        let (event, data) = self.event()?;
        let metadata = &data["metadata"];
        Some(match event.as_str() {
            "bookmark" => format!("bookmark {}", data["revision"]),
            "reset" => event,
            _ => {
                format!("{event} {} {}", metadata["name"].as_str().unwrap(), metadata["revision"])
            }
        })
    }

    pub fn several(&mut self, count: usize) -> Vec<String> {
        (0..count).map_while(|_| self.next()).collect()
    }
}
