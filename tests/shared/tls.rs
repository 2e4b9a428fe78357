//! A store behind TLS, as a hosted one is: the command brings rustls, and believes the authorities
//! of the machine.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::server::{Kind, Server};
use super::usage::run;

/// Ends TLS for a server. The certificate is for `localhost`, from an authority of the tests' own.
struct Tls {
    child: Child,
    port: u16,
}

impl Tls {
    fn before(server: &Server) -> Self {
        let mut child = Command::new("python3")
            .args(["-c", TERMINATOR, &fixture("localhost.pem")])
            .arg(server.port().to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut port).unwrap();
        Self {
            child,
            port: port.trim().parse().unwrap(),
        }
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn fixture(name: &str) -> String {
    format!("{}/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

const CLOSED: [&str; 2] = ["--when-away", "closed"];

const TERMINATOR: &str = r#"
import socket, ssl, sys, threading
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)

def pump(source, sink):
    try:
        while piece := source.recv(65536):
            sink.sendall(piece)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

def serve(near):
    try:
        near = context.wrap_socket(near, server_side=True)
    except OSError:
        return
    far = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
    threading.Thread(target=pump, args=(near, far), daemon=True).start()
    pump(far, near)

while True:
    near, _ = listener.accept()
    threading.Thread(target=serve, args=(near,), daemon=True).start()
"#;

#[test]
fn a_store_is_reached_through_tls_and_only_where_its_certificate_is_believed() {
    let server = Server::start(Kind::Valkey);
    let tls = Tls::before(&server);
    let url = format!("rediss://localhost:{}", tls.port);
    let (succeeds, said) = run(&url, &CLOSED, Some(&fixture("authority.pem")));
    assert!(succeeds, "{said}");
    assert!(!server.keys().is_empty(), "it was shared");
    server.command(&["FLUSHALL"]);
    let (succeeds, said) = run(&url, &CLOSED, None);
    assert!(!succeeds, "{said}");
    assert!(server.keys().is_empty(), "nothing was said to a stranger");
}
