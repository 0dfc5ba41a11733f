#include "lockstep/comm/control.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"

namespace lockstep::comm {
namespace {

constexpr char kHello = 'H', kBeat = 'B', kAbort = 'A', kGoodbye = 'G';
// A longer frame is not ours.
constexpr std::uint32_t kMaxFrame = 1 << 20;
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
  std::stable_partition(result.begin(), result.end(), [](const std::string& address) { return address.rfind("127.", 0) != 0; });
  return result;
}

FileDescriptor call(const std::string& address, int port) {
  constexpr int kConnectMs = 2000;
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  inet_pton(AF_INET, address.c_str(), &to.sin_addr);
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0 && errno != EINPROGRESS) return {};
  pollfd state{socket.get(), POLLOUT, 0};
  int error = 0;
  socklen_t length = sizeof error;
  if (poll(&state, 1, kConnectMs) <= 0 || getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) return {};
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
  if (!socket_ || bind(socket_.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) != 0 || listen(socket_.get(), 1024) != 0 ||
      getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&any), &length) != 0) {
    fail_errno("cannot open the control channel", errno);
  }
  if (getrandom(&secret_, sizeof secret_, 0) != static_cast<ssize_t>(sizeof secret_)) fail_errno("no random numbers", errno);
  invitation_ = fmt::format("{} {} {}", ntohs(any.sin_port), secret_, join(own_addresses(), ","));
}

ControlChannel::ControlChannel(Options options, Listener listener) : options_(std::move(options)), listener_(std::move(listener)) { start(); }

ControlChannel::ControlChannel(Options options, const std::string& invitation)
    : options_(std::move(options)), listener_(Listener::None{}) {
  std::istringstream text(invitation);
  int port = 0;
  std::uint64_t secret = 0;
  std::string addresses;
  text >> port >> secret >> addresses;
  auto server = std::make_unique<Peer>();
  server->host = 0;
  server->heard_ns = monotonic_ns();
  for (const auto& address : lockstep::split(addresses, ',')) {
    server->socket = call(address, port);
    if (server->socket) break;
  }
  if (!server->socket) {
    fail(Fault::Comm, fmt::format("host {} cannot reach {} on port {} of {}; is a firewall between them?",
                                  options_.hosts[static_cast<std::size_t>(options_.host)].name, describe(options_.hosts[0]), port, addresses));
  }
  prepare(server->socket.get());
  send(*server, kHello, fmt::format("{} {}", secret, options_.host));
  peers_.push_back(std::move(server));
  start();
}

void ControlChannel::start() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ControlChannel::~ControlChannel() {
  stopping_ = true;
  thread_.join();
}

void ControlChannel::run() {
  pthread_setname_np(pthread_self(), "lockstep-ctrl");
  while (!stopping_) {
    std::vector<pollfd> sockets;
    if (listener_.socket_) sockets.push_back({listener_.socket_.get(), POLLIN, 0});
    for (const auto& peer : peers_) {
      if (peer->socket) sockets.push_back({peer->socket.get(), POLLIN, 0});
    }
    poll(sockets.data(), sockets.size(), kTickMs);
    if (listener_.socket_) accept_callers();
    for (auto& peer : peers_) {
      if (peer->socket) read(*peer);
    }
    beat();
    forward_abort();
  }
  forward_abort();
  const bool good = !options_.segment->aborted();
  for (auto& peer : peers_) {
    if (peer->socket && good) send(*peer, kGoodbye, "");
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
  for (;;) {
    const ssize_t count = recv(peer.socket.get(), buffer, sizeof buffer, 0);
    if (count > 0) {
      peer.received.append(buffer, static_cast<std::size_t>(count));
      peer.heard_ns = monotonic_ns();
      continue;
    }
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) break;
    lose(peer, "has died: its control connection broke");
    return;
  }
  while (peer.socket && peer.received.size() >= 5) {
    std::uint32_t length;
    std::memcpy(&length, peer.received.data(), sizeof length);
    if (length > kMaxFrame) {
      lose(peer, "sent something that is not ours over the control channel");
      return;
    }
    if (peer.received.size() < 5 + length) return;
    const char type = peer.received[4];
    const std::string payload = peer.received.substr(5, length);
    peer.received.erase(0, 5 + length);
    handle(peer, type, payload);
  }
}

void ControlChannel::handle(Peer& peer, char type, const std::string& payload) {
  if (peer.host < 0) {  // a stranger says who it is first
    std::istringstream text(payload);
    std::uint64_t secret = 0;
    int host = -1;
    text >> secret >> host;
    if (type != kHello || secret != listener_.secret_ || host < 1 || host >= static_cast<int>(options_.hosts.size())) {
      peer.socket.reset();
      return;
    }
    peer.host = host;
    return;
  }
  if (type == kBeat) {
    learn(payload);
  } else if (type == kGoodbye) {
    peer.left = true;
    const std::lock_guard lock(statuses_mutex_);
    for (const int rank : options_.hosts[static_cast<std::size_t>(peer.host)].world_ranks) statuses_[rank].left = true;
  } else if (type == kAbort) {
    std::istringstream text(payload);
    int rank = -1, code = 1, fault = 0;
    std::string message;
    text >> rank >> code >> fault;
    text.get();
    std::getline(text, message, '\0');
    options_.segment->abort(rank, code, static_cast<Fault>(std::clamp(fault, 0, static_cast<int>(Fault::Internal))), message);
  }
}

void ControlChannel::send(Peer& peer, char type, const std::string& payload) {
  const auto length = static_cast<std::uint32_t>(payload.size());
  std::string frame(reinterpret_cast<const char*>(&length), sizeof length);
  frame += type;
  frame += payload;
  // A few hundred bytes now and then; if even they do not fit the peer is lost soon anyway.
  (void)::send(peer.socket.get(), frame.data(), frame.size(), MSG_NOSIGNAL);
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
  const std::string statuses = options_.host == 0 ? all_statuses() : local_statuses();
  for (auto& peer : peers_) {
    if (peer->socket && peer->host >= 0) send(*peer, kBeat, statuses);
  }
}

void ControlChannel::forward_abort() {
  if (abort_forwarded_ || !options_.segment->aborted()) return;
  abort_forwarded_ = true;
  const AbortRecord& record = options_.segment->header().abort;
  const std::string text = fmt::format("{} {} {} {}", record.rank, record.exit_code, record.fault, record.message);
  for (auto& peer : peers_) {
    if (peer->socket && peer->host >= 0) send(*peer, kAbort, text);
  }
}

// One line a rank: its number, whether it waits in a collective, where it is.
std::string ControlChannel::local_statuses() const {
  std::string result;
  const auto& ranks = options_.hosts[static_cast<std::size_t>(options_.host)].world_ranks;
  for (std::size_t index = 0; index < ranks.size(); ++index) {
    const StatusPage& page = options_.segment->status(static_cast<int>(index));
    std::string place = describe_place(page, monotonic_ns());
    std::replace(place.begin(), place.end(), '\n', ' ');
    result += fmt::format("{} {} {}\n", ranks[index], page.waiting_for[0] != 0 ? 1 : 0, place);
  }
  return result;
}

std::string ControlChannel::all_statuses() const {
  std::string result = local_statuses();
  const std::lock_guard lock(statuses_mutex_);
  for (const auto& [rank, status] : statuses_) result += fmt::format("{} {} {}\n", rank, status.waits ? 1 : 0, status.place);
  return result;
}

void ControlChannel::learn(const std::string& statuses) {
  const auto& mine = options_.hosts[static_cast<std::size_t>(options_.host)].world_ranks;
  std::istringstream lines(statuses);
  std::string line;
  const std::lock_guard lock(statuses_mutex_);
  while (std::getline(lines, line)) {
    std::istringstream text(line);
    int rank = -1, waits = 0;
    text >> rank >> waits;
    text.get();
    if (!text || std::find(mine.begin(), mine.end(), rank) != mine.end()) continue;
    Status& status = statuses_[rank];
    status.waits = waits != 0;
    std::getline(text, status.place);
  }
}

std::string ControlChannel::elsewhere(int world_rank) const {
  const std::lock_guard lock(statuses_mutex_);
  const auto found = statuses_.find(world_rank);
  return found == statuses_.end() || found->second.waits ? "" : found->second.place;
}

bool ControlChannel::has_left(int world_rank) const {
  const std::lock_guard lock(statuses_mutex_);
  const auto found = statuses_.find(world_rank);
  return found != statuses_.end() && found->second.left;
}

}  // namespace lockstep::comm
