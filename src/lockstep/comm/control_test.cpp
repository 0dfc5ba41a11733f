#include "lockstep/comm/control.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/comm/control_protocol.h"
#include "lockstep/core/text.h"

namespace lockstep::comm {
namespace {

using control::Frame;
using control::to_bytes;
using control::to_text;

// ---- the protocol ------------------------------------------------------------------------------

TEST(ControlProtocol, CutsFramesFromPiecesOfAnySize) {
  const std::vector<Frame> sent = {
      {'B', "0 1 x\n"}, {'G', ""}, {'A', std::string(70'000, 'm')}, {'H', std::string("\0\n\xff", 3)}};
  std::string stream;
  for (const auto& frame : sent) stream += to_bytes(frame);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, std::size_t{4096}, stream.size()}) {
    control::FrameReader reader;
    std::vector<Frame> received;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      reader.append(std::string_view(stream).substr(at, piece));
      while (auto frame = reader.next()) received.push_back(*frame);
    }
    ASSERT_EQ(received.size(), sent.size()) << piece;
    for (std::size_t i = 0; i < sent.size(); ++i) {
      EXPECT_EQ(received[i].type, sent[i].type);
      EXPECT_EQ(received[i].payload, sent[i].payload);
    }
    EXPECT_FALSE(reader.broken());
  }
}

TEST(ControlProtocol, StopsAtAFrameThatIsTooLong) {
  control::FrameReader reader;
  reader.append("GET / HTTP/1.1\r\n\r\n");
  EXPECT_FALSE(reader.next());
  EXPECT_TRUE(reader.broken());
  reader.append(to_bytes({'G', ""}));
  EXPECT_FALSE(reader.next());
}

TEST(ControlProtocol, TextsSurvive) {
  const auto hello = control::parse_hello(to_text(control::Hello{UINT64_MAX, 3}));
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->secret, UINT64_MAX);
  EXPECT_EQ(hello->host, 3);
  for (const std::string message : {"", "rank 1: two\nlines  of text", " starts with a space"}) {
    const auto abort = control::parse_abort(to_text(control::Abort{-1, 137, Fault::Io, message}));
    ASSERT_TRUE(abort) << message;
    EXPECT_EQ(abort->rank, -1);
    EXPECT_EQ(abort->exit_code, 137);
    EXPECT_EQ(abort->fault, Fault::Io);
    EXPECT_EQ(abort->message, message);
  }
  const auto statuses = control::parse_statuses(
      to_text({{0, true, "in span 'a b' for 0.1 s"}, {17, false, "one\nline"}, {3, false, ""}}));
  ASSERT_EQ(statuses.size(), 3U);
  EXPECT_TRUE(statuses[0].waits);
  EXPECT_EQ(statuses[0].place, "in span 'a b' for 0.1 s");
  EXPECT_EQ(statuses[1].rank, 17);
  EXPECT_EQ(statuses[1].place, "one line");
  EXPECT_EQ(statuses[2].place, "");
}

TEST(ControlProtocol, StatusesOfAsManyRanksAsThereMayBe) {
  std::vector<control::RankStatus> statuses;
  for (int rank = 0; rank < 32'767; ++rank) statuses.push_back({rank, rank % 3 == 0, std::string(150, 'p')});
  control::FrameReader reader;
  int next = 0;
  for (const auto& text : control::to_texts(statuses)) {
    reader.append(to_bytes({control::kBeat, text}));
    const auto frame = reader.next();
    ASSERT_TRUE(frame);
    for (const auto& status : control::parse_statuses(frame->payload)) {
      EXPECT_EQ(status.rank, next);
      EXPECT_EQ(status.waits, next++ % 3 == 0);
    }
  }
  EXPECT_EQ(next, 32'767);
  EXPECT_EQ(control::to_texts({}).size(), 1U);  // a beat without news is one, too
}

TEST(ControlProtocol, RefusesOtherTexts) {
  for (const char* text : {"", "7", "7 ", "x 1", "1 x", "1 2 3", "99999999999999999999 1", "1 99999999999"}) {
    EXPECT_FALSE(control::parse_hello(text)) << text;
  }
  for (const char* text : {"", "0 1", "0 0 2 done", "0 256 2 m", "-2 1 2 m", "0 1 99 m", "0 1 -1 m", "0 1 2message"}) {
    EXPECT_FALSE(control::parse_abort(text)) << text;
  }
  EXPECT_EQ(control::parse_statuses("\n\nx\n1\n-1 0 p\n5 2 p\n6 1 right\n").size(), 1U);
}

// ---- the channel, two hosts in one process -----------------------------------------------------

ControlChannel::Options options(const std::shared_ptr<Segment>& segment, const std::shared_ptr<ControlBoard>& board,
                                int host) {
  ControlChannel::Options result{segment, board, {{"alpha", {0, 1}}, {"beta", {2}}}, host};
  result.beat_s = 0.05;
  return result;
}

// To see that something does not happen.
constexpr std::chrono::milliseconds kSeveralTicks{300};

bool happens(const std::function<bool()>& what) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!what()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

struct TwoHosts : ::testing::Test {
  std::shared_ptr<Segment> alpha = Segment::for_threads(2), beta = Segment::for_threads(1);
  std::shared_ptr<ControlBoard> first_board = ControlBoard::create(3), second_board = ControlBoard::create(3);
  ControlChannel::Listener listener;
  std::string invitation = listener.invitation();

  std::string cause(const std::shared_ptr<Segment>& segment) {
    return segment->aborted() ? segment->header().abort.message : "";
  }
};

TEST_F(TwoHosts, TellEachOtherWhereTheirRanksAre) {
  beta->status(0).span.set("load batch");
  const ControlChannel first(options(alpha, first_board, 0), std::move(listener));
  const ControlChannel second(options(beta, second_board, 1), invitation);
  EXPECT_TRUE(happens([&] { return first_board->elsewhere(2).starts_with("in span 'load batch' for "); }))
      << first_board->elsewhere(2);
  EXPECT_TRUE(happens([&] { return second_board->elsewhere(1) == "outside any span"; }));
  beta->status(0).waiting_for.set("barrier #0");
  EXPECT_TRUE(happens([&] { return first_board->elsewhere(2).empty(); }));
}

// The channel is its leader's, but any rank of a host may be the first that has waited too long.
TEST_F(TwoHosts, EveryRankOfAHostCanTellWhoIsMissing) {
  const auto follower = ControlBoard::attach(FileDescriptor(dup(first_board->descriptor())), 3);
  EXPECT_EQ(follower->elsewhere(2), "");
  beta->status(0).span.set("load batch");
  {
    const ControlChannel first(options(alpha, first_board, 0), std::move(listener));
    const ControlChannel second(options(beta, second_board, 1), invitation);
    EXPECT_TRUE(happens([&] { return follower->elsewhere(2).starts_with("in span 'load batch' for "); }));
    EXPECT_EQ(follower->elsewhere(0), "");
  }
  // With its leader silent a host knows nothing of the others: not that they are silent.
  EXPECT_TRUE(happens([&] { return follower->elsewhere(2).empty(); }));
}

TEST_F(TwoHosts, ShareTheFirstCause) {
  const ControlChannel first(options(alpha, first_board, 0), std::move(listener));
  const ControlChannel second(options(beta, second_board, 1), invitation);
  ASSERT_TRUE(happens([&] { return !first_board->elsewhere(2).empty(); }));
  beta->abort(2, 2, Fault::Usage, "no such dataset");
  ASSERT_TRUE(happens([&] { return alpha->aborted(); }));
  EXPECT_EQ(cause(alpha), "no such dataset");
  EXPECT_EQ(alpha->header().abort.rank, 2);
  EXPECT_EQ(alpha->header().abort.exit_code, 2);
}

TEST_F(TwoHosts, AGoodByeIsNoDeath) {
  const ControlChannel first(options(alpha, first_board, 0), std::move(listener));
  {
    const ControlChannel second(options(beta, second_board, 1), invitation);
    ASSERT_TRUE(happens([&] { return !first_board->elsewhere(2).empty(); }));
  }
  std::this_thread::sleep_for(kSeveralTicks);
  EXPECT_EQ(cause(alpha), "");
}

/// Says `bytes` to the first host and hangs up.
void say_and_hang_up(const std::string& invitation, const std::string& bytes) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(invitation)));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  ASSERT_EQ(send(socket.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
}

std::string hello(const std::string& invitation) {
  return to_bytes({control::kHello, to_text(control::Hello{std::stoull(split(invitation, ' ')[1]), 1})});
}

// All of it is there when the first host first looks: what was said last must not be
// lost over the end of the connection.
TEST_F(TwoHosts, LastWordsCountMoreThanTheEndOfTheConnection) {
  say_and_hang_up(
      invitation,
      hello(invitation) + to_bytes({control::kAbort, to_text(control::Abort{2, 1, Fault::Data, "shard 7 is torn"})}));
  const ControlChannel first(options(alpha, first_board, 0), std::move(listener));
  ASSERT_TRUE(happens([&] { return alpha->aborted(); }));
  EXPECT_EQ(cause(alpha), "shard 7 is torn");
}

TEST_F(TwoHosts, AGoodByeAtOnceIsNoDeath) {
  say_and_hang_up(invitation, hello(invitation) + to_bytes({control::kGoodbye, ""}));
  const ControlChannel first(options(alpha, first_board, 0), std::move(listener));
  std::this_thread::sleep_for(kSeveralTicks);
  EXPECT_EQ(cause(alpha), "");
}

TEST_F(TwoHosts, NameTheHostThatDied) {
  say_and_hang_up(invitation, hello(invitation));
  const ControlChannel first(options(alpha, first_board, 0), std::move(listener));
  ASSERT_TRUE(happens([&] { return alpha->aborted(); }));
  EXPECT_EQ(cause(alpha), "host beta (rank 2) has died: its control connection, held by rank 2, broke");
  EXPECT_EQ(alpha->header().abort.rank, -1);
}

// Somebody else listens at an address that the first host has on its own network.
TEST_F(TwoHosts, AStrangerThatTakesTheCallIsNotTheFirstHost) {
  const ControlChannel::Listener stranger;  // takes calls but answers none
  const std::string port = split(stranger.invitation(), ' ')[0];
  try {
    const ControlChannel second(options(beta, second_board, 1), port + " 1 127.0.0.1");
    ADD_FAILURE() << "took a stranger for the first host";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("host beta cannot reach host alpha (ranks 0, 1) on port "), std::string::npos)
        << error.message();
  }
}

// More than a socket takes at once.
TEST_F(TwoHosts, StatusesOfManyRanksArrive) {
  constexpr int kRanks = 7'000;  // more than a megabyte of news
  first_board = ControlBoard::create(kRanks);
  second_board = ControlBoard::create(kRanks);
  auto many = options(alpha, first_board, 0), one = options(beta, second_board, 1);
  ControlHost gamma_host{"gamma", {}};
  for (int rank = 3; rank < kRanks; ++rank) gamma_host.world_ranks.push_back(rank);
  many.hosts.push_back(gamma_host);
  one.hosts.push_back(gamma_host);
  const ControlChannel first(many, std::move(listener));
  const ControlChannel second(one, invitation);
  std::atomic<bool> told{false};
  std::thread gamma([&] {  // the third host's news, as the first host would learn them
    while (!told) {
      for (int rank = 3; rank < kRanks; ++rank) first_board->learn({rank, false, std::string(200, 'p')});
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  });
  EXPECT_TRUE(happens([&] { return second_board->elsewhere(kRanks - 1) == std::string(200, 'p'); }));
  told = true;
  gamma.join();
  EXPECT_EQ(cause(alpha), "");
  EXPECT_EQ(cause(beta), "");
}

TEST_F(TwoHosts, StrangersAreIgnored) {
  say_and_hang_up(invitation, "GET / HTTP/1.1\r\n\r\n");
  say_and_hang_up(invitation, to_bytes({control::kHello, to_text(control::Hello{12345, 1})}));
  say_and_hang_up(invitation, to_bytes({control::kAbort, to_text(control::Abort{0, 1, Fault::Comm, "forged"})}));
  const ControlChannel first(options(alpha, first_board, 0), std::move(listener));
  const ControlChannel second(options(beta, second_board, 1), invitation);
  EXPECT_TRUE(happens([&] { return !first_board->elsewhere(2).empty(); }));
  EXPECT_EQ(cause(alpha), "");
}

}  // namespace
}  // namespace lockstep::comm
