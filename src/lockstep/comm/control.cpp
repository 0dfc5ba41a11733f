#include "lockstep/comm/control.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <sstream>

#include <fmt/format.h>

#include "lockstep/comm/background_thread.h"
#include "lockstep/core/error.h"
#include "lockstep/core/text.h"

namespace lockstep::comm {
namespace {

constexpr int kTickMs = 50;

std::vector<std::string> own_addresses() {
  std::vector<std::string> result;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return result;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    char text[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(entry->ifa_addr)->sin_addr, text, sizeof text);
    result.emplace_back(text);
  }
  freeifaddrs(list);
  // The loopback last: another host that tries it would call itself.
  std::stable_partition(result.begin(), result.end(),
                        [](const std::string& address) { return address.rfind("127.", 0) != 0; });
  return result;
}

using Clock = std::chrono::steady_clock;

/// poll() of one socket up to `until`, whatever signals come.
bool wait_for(int socket, short events, Clock::time_point until) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd state{socket, events, 0};
    const int count = poll(&state, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (count >= 0 || errno != EINTR) return count > 0;
  }
}

FileDescriptor connect_to(const std::string& address, int port, Clock::time_point until) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  inet_pton(AF_INET, address.c_str(), &to.sin_addr);
  // Interrupted, it goes on by itself.
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0 && errno != EINPROGRESS && errno != EINTR)
    return {};
  int error = 0;
  socklen_t length = sizeof error;
  if (!wait_for(socket.get(), POLLOUT, until) || getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 ||
      error != 0)
    return {};
  return socket;
}

void prepare(int socket) {
  const int one = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

std::string describe(const ControlHost& host) {
  std::vector<std::string> ranks;
  for (const int rank : host.world_ranks) ranks.push_back(std::to_string(rank));
  return fmt::format("host {} ({} {})", host.name, ranks.size() == 1 ? "rank" : "ranks", join(ranks, ", "));
}

}  // namespace

ControlChannel::Listener::Listener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t length = sizeof any;
  if (!socket_ || bind(socket_.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) != 0 ||
      listen(socket_.get(), 1024) != 0 || getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&any), &length) != 0) {
    fail_errno("cannot open the control channel", errno);
  }
  if (getrandom(&secret_, sizeof secret_, 0) != static_cast<ssize_t>(sizeof secret_))
    fail_errno("no random numbers", errno);
  invitation_ = fmt::format("{} {} {}", ntohs(any.sin_port), secret_, join(own_addresses(), ","));
}

ControlChannel::ControlChannel(Options options, Listener listener)
    : options_(std::move(options)), listener_(std::move(listener)) {
  start();
}

ControlChannel::ControlChannel(Options options, const std::string& invitation)
    : options_(std::move(options)), listener_(Listener::None{}) {
  std::istringstream text(invitation);
  int port = 0;
  std::uint64_t secret = 0;
  std::string addresses;
  text >> port >> secret >> addresses;
  const control::Frame hello{control::kHello, control::to_text(control::Hello{secret, options_.host})};
  for (const auto& address : lockstep::split(addresses, ',')) {
    auto server = std::make_unique<Peer>();
    if (!call(*server, address, port, hello)) continue;
    peers_.push_back(std::move(server));
    start();
    return;
  }
  fail(Fault::Comm, fmt::format("host {} cannot reach {} on port {} of {}; is a firewall between them?",
                                options_.hosts[static_cast<std::size_t>(options_.host)].name,
                                describe(options_.hosts[0]), port, addresses));
}

// Hosts have equal addresses (a bridge of containers, the loopback): whoever takes the call may
// be a stranger. Only the first host answers with a welcome.
bool ControlChannel::call(Peer& server, const std::string& address, int port, const control::Frame& hello) {
  server.socket = connect_to(address, port, Clock::now() + std::chrono::seconds(2));
  if (!server.socket) return false;
  prepare(server.socket.get());
  server.host = 0;
  send(server, hello);
  const auto until = Clock::now() + std::chrono::seconds(5);
  while (wait_for(server.socket.get(), POLLIN, until)) {
    char buffer[4096];
    const ssize_t count = recv(server.socket.get(), buffer, sizeof buffer, 0);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (count > 0) server.received.append({buffer, static_cast<std::size_t>(count)});
    if (const auto frame = server.received.next()) {
      server.heard_ns = monotonic_ns();
      return frame->type == control::kWelcome;
    }
    if (server.received.broken()) return false;
  }
  return false;
}

void ControlChannel::start() {
  thread_ = start_background_thread("lockstep-ctrl", [this] { run(); });
}

ControlChannel::~ControlChannel() {
  stopping_ = true;
  thread_.join();
}

void ControlChannel::run() {
  while (!stopping_) {
    options_.board->beat(3 * options_.beat_s);
    std::vector<pollfd> sockets;
    if (listener_.socket_) sockets.push_back({listener_.socket_.get(), POLLIN, 0});
    for (const auto& peer : peers_) {
      const short events = peer->unsent.empty() ? POLLIN : POLLIN | POLLOUT;
      if (peer->socket) sockets.push_back({peer->socket.get(), events, 0});
    }
    poll(sockets.data(), sockets.size(), kTickMs);
    if (listener_.socket_) accept_callers();
    for (auto& peer : peers_) {
      if (peer->socket) read(*peer);
      if (peer->socket && !peer->unsent.empty()) flush(*peer);
    }
    std::erase_if(peers_, [](const auto& peer) { return !peer->socket && peer->host < 0; });
    beat();
    forward_abort();
  }
  forward_abort();
  const bool good = !options_.segment->aborted();
  for (auto& peer : peers_) {
    if (peer->socket && good) send(*peer, {control::kGoodbye, ""});
  }
}

void ControlChannel::accept_callers() {
  for (;;) {
    FileDescriptor caller(accept4(listener_.socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!caller) return;
    prepare(caller.get());
    auto peer = std::make_unique<Peer>();
    peer->socket = std::move(caller);
    peer->heard_ns = monotonic_ns();
    peers_.push_back(std::move(peer));
  }
}

void ControlChannel::read(Peer& peer) {
  char buffer[65536];
  bool ended = false;
  // Not as long as it sends: others have something to say too.
  for (int reads = 0; reads < 64 && !ended; ++reads) {
    const ssize_t count = recv(peer.socket.get(), buffer, sizeof buffer, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    ended = count <= 0;
    if (ended) break;
    peer.received.append({buffer, static_cast<std::size_t>(count)});
    // A stranger that talks has not said who it is yet.
    if (peer.host >= 0) peer.heard_ns = monotonic_ns();
  }
  // What it said last counts though it has gone since: its good-bye, or its first cause.
  while (peer.socket) {
    const auto frame = peer.received.next();
    if (!frame) break;
    handle(peer, *frame);
  }
  if (peer.received.broken()) lose(peer, "sent something that is not ours over the control channel");
  if (!ended || !peer.socket) return;
  const int holder = peer.host < 0 ? -1 : options_.hosts[static_cast<std::size_t>(peer.host)].world_ranks.front();
  lose(peer, fmt::format("has died: its control connection, held by rank {}, broke", holder));
}

void ControlChannel::handle(Peer& peer, const control::Frame& frame) {
  if (peer.host < 0) {  // a stranger says who it is first
    const auto hello = control::parse_hello(frame.payload);
    if (frame.type != control::kHello || !hello || hello->secret != listener_.secret_ || hello->host < 1 ||
        hello->host >= static_cast<int>(options_.hosts.size())) {
      peer.socket.reset();
      return;
    }
    peer.host = hello->host;
    peer.heard_ns = monotonic_ns();
    send(peer, {control::kWelcome, ""});
    return;
  }
  if (frame.type == control::kBeat) {
    learn(frame.payload);
  } else if (frame.type == control::kGoodbye) {
    peer.left = true;
  } else if (frame.type == control::kAbort) {
    const auto abort = control::parse_abort(frame.payload);
    if (abort)
      options_.segment->abort(abort->rank, abort->exit_code, abort->fault, abort->message, true);
    else
      lose(peer, "sent something that is not ours over the control channel");
  }
}

void ControlChannel::send(Peer& peer, const control::Frame& frame) {
  peer.unsent += control::to_bytes(frame);
  flush(peer);
}

// What the socket does not take now goes later: half a frame would make garbage of all
// that follow.
void ControlChannel::flush(Peer& peer) {
  const ssize_t count = ::send(peer.socket.get(), peer.unsent.data(), peer.unsent.size(), MSG_NOSIGNAL);
  if (count > 0) peer.unsent.erase(0, static_cast<std::size_t>(count));
}

void ControlChannel::lose(Peer& peer, const std::string& how) {
  peer.socket.reset();
  if (peer.left || peer.host < 0 || stopping_) return;
  options_.segment->abort(-1, exit_code::kFailed, Fault::Comm,
                          fmt::format("{} {}", describe(options_.hosts[static_cast<std::size_t>(peer.host)]), how));
}

void ControlChannel::beat() {
  const std::int64_t now = monotonic_ns();
  for (auto& peer : peers_) {
    const double silent_s = static_cast<double>(now - peer->heard_ns) * 1e-9;
    if (peer->socket && !peer->left && silent_s > options_.lost_after_s) {
      lose(*peer, fmt::format("has not answered for {:.1f} s; it is down, stopped or cut off", silent_s));
    }
  }
  if (now < next_beat_ns_) return;
  next_beat_ns_ = now + static_cast<std::int64_t>(options_.beat_s * 1e9);
  const auto texts = control::to_texts(options_.host == 0 ? all_statuses() : local_statuses());
  for (auto& peer : peers_) {
    if (!peer->socket || peer->host < 0) continue;
    if (!peer->unsent.empty()) continue;  // statuses pile up for nobody: the next are newer
    for (const auto& text : texts) send(*peer, {control::kBeat, text});
  }
}

void ControlChannel::forward_abort() {
  if (abort_forwarded_ || !options_.segment->aborted()) return;
  abort_forwarded_ = true;
  const AbortRecord& record = options_.segment->header().abort;
  const std::string text =
      control::to_text(control::Abort{record.rank, record.exit_code, static_cast<Fault>(record.fault), record.message});
  for (auto& peer : peers_) {
    if (peer->socket && peer->host >= 0) send(*peer, {control::kAbort, text});
  }
}

std::vector<control::RankStatus> ControlChannel::local_statuses() const {
  std::vector<control::RankStatus> result;
  const auto& ranks = options_.hosts[static_cast<std::size_t>(options_.host)].world_ranks;
  for (std::size_t index = 0; index < ranks.size(); ++index) {
    const StatusPage& page = options_.segment->status(static_cast<int>(index));
    result.push_back({ranks[index], waits(page), describe_place(page, monotonic_ns())});
  }
  return result;
}

std::vector<control::RankStatus> ControlChannel::all_statuses() const {
  auto result = local_statuses();
  for (std::size_t host = 1; host < options_.hosts.size(); ++host) {
    for (const int rank : options_.hosts[host].world_ranks) {
      if (auto status = options_.board->status(rank)) result.push_back(std::move(*status));
    }
  }
  return result;
}

void ControlChannel::learn(const std::string& statuses) {
  const auto& mine = options_.hosts[static_cast<std::size_t>(options_.host)].world_ranks;
  for (const auto& told : control::parse_statuses(statuses)) {
    if (std::find(mine.begin(), mine.end(), told.rank) == mine.end()) options_.board->learn(told);
  }
}

}  // namespace lockstep::comm
