//! A store behind TLS, as a hosted one is: the command brings rustls, and believes the authorities
//! of the machine.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

use super::server::{Kind, Server};
use super::usage::run;

/// Ends TLS for a server. The certificate is for `localhost`, from an authority that nobody knew
/// before: both are made anew each time.
struct Tls {
    child: Child,
    port: u16,
    /// Holds the certificate of the authority, and that of the server with its private key.
    directory: TempDir,
}

impl Tls {
    fn before(server: &Server) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join("localhost.pem");
        let (authority, certificate) = certificates();
        fs::write(directory.path().join("authority.pem"), authority).unwrap();
        fs::write(&own, certificate).unwrap();
        let mut child = Command::new("python3")
            .args(["-c", TERMINATOR, own.to_str().unwrap()])
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
            directory,
        }
    }

    fn authority(&self) -> String {
        let path = self.directory.path().join("authority.pem");
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// An authority, and with its word the certificate and the private key of `localhost`.
fn certificates() -> (String, String) {
    let mut authority = CertificateParams::new([]).unwrap();
    let name = &mut authority.distinguished_name;
    name.push(DnType::CommonName, "paceline test authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let own = own.signed_by(&key, &authority).unwrap();
    (authority.pem(), own.pem() + &key.serialize_pem())
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
    let (succeeds, said) = run(&url, &CLOSED, Some(&tls.authority()));
    assert!(succeeds, "{said}");
    assert!(!server.keys().is_empty(), "it was shared");
    server.command(&["FLUSHALL"]);
    let (succeeds, said) = run(&url, &CLOSED, None);
    assert!(!succeeds, "{said}");
    assert!(server.keys().is_empty(), "nothing was said to a stranger");
}
