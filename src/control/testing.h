// Random messages, and messages as text, for the tests of this folder.
//
// Each struct is decomposed by a structured binding. A new field in messages.h therefore does not compile
// here until it is listed, and then fails the test until control.proto has it.
#pragma once

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/rng.h"
#include "protocol/messages_control.h"
#include "protocol/messages_data.h"

namespace leat::control {

template <class F, class... Ts>
void Each(F& f, Ts&... fields) {
  (f(fields), ...);
}

#define LEAT_FIELDS(Type, ...)           \
  template <class F>                     \
  void Fields(protocol::Type& m, F& f) { \
    auto& [__VA_ARGS__] = m;             \
    Each(f, __VA_ARGS__);                \
  }
template <class F>
void Fields(topology::HostPlace& m, F& f) {
  auto& [a, b, c] = m;
  Each(f, a, b, c);
}
LEAT_FIELDS(Position, a, b)
LEAT_FIELDS(Member, a, b, c, d, e)
LEAT_FIELDS(SliceLocation, a, b, c)
LEAT_FIELDS(View, a, b, c, d)
LEAT_FIELDS(MpiRank, a, b)
LEAT_FIELDS(JoinRequest, a, b, c, d, e, g, h, i, j, k, l, n, o, p)
LEAT_FIELDS(JoinReply, a, b, c, d, e, g, h, i, j, k)
LEAT_FIELDS(Cut, a, b, c, d, e, g, h, i)
LEAT_FIELDS(LabelRange, a, b)
LEAT_FIELDS(Lease, a, b, c, d, e, g, h, i, j, k)
LEAT_FIELDS(BatchScores, a, b, c, d)
LEAT_FIELDS(WorkerProgress, a, b, c, d, e, g, h, i, j, k, l, n, o, p, q, r, s, t, u, v, w, x, y, z, aa, bb,
            cc)
LEAT_FIELDS(ShardReport, a, b, c, d, e, g)
LEAT_FIELDS(RejectedRun, a, b, c)
LEAT_FIELDS(SliceIncarnation, a, b)
LEAT_FIELDS(SliceOrder, a, b, c, d, e, g)
LEAT_FIELDS(MoveOrder, a, b, c, d, e, g)
LEAT_FIELDS(ReplicaGroup, a, b, c, d)
LEAT_FIELDS(LostReplica, a, b)
LEAT_FIELDS(MoveReport, a, b, c)
LEAT_FIELDS(SliceTraffic, a, b, c)
LEAT_FIELDS(CheckpointOrder, a, b, c)
LEAT_FIELDS(OpenSplit, a, b)
LEAT_FIELDS(PartitionLedger, a, b)
LEAT_FIELDS(MemberReport, a, b, c, d, e, g, h, i, j, k, l, n, o, p)
LEAT_FIELDS(UnsentScores, a, b)
LEAT_FIELDS(LeaseClaim, a, b, c, d, e)
LEAT_FIELDS(CoordinatorSet, a, b, c)
LEAT_FIELDS(ElectorState, a, b, c)
LEAT_FIELDS(Candidacy, a, b, c)
LEAT_FIELDS(Promise, a, b, c, d, e, g)
LEAT_FIELDS(PromiseReply, a)
LEAT_FIELDS(FollowRequest, a, b, c, d, e, g)
LEAT_FIELDS(FollowReply, a, b, c, d, e, g, h, i, j, k, l, n)
LEAT_FIELDS(WorkerHeartbeat, a, b, c, d, e, g, h, i, j, k, l, n, o, p, q, r, s, t)
LEAT_FIELDS(Group, a, b, c, d, e, g)
LEAT_FIELDS(Round::Lane, a, b, c)
LEAT_FIELDS(Round, a, b, c)
LEAT_FIELDS(RecordOrder, a, b)
LEAT_FIELDS(WorkerHeartbeatReply, a, b, c, d, e, g, h, i, j, k, l, n, o, p, q, r, s, t, u)
LEAT_FIELDS(LedgerReport, a, b, c, d, e, g)
LEAT_FIELDS(ServerProgress, a, b, c, d, e, g, h, i, j, k, l, n, o, p)
LEAT_FIELDS(ServerHeartbeat, a, b, c, d, e, g, h, i, j, k, l, n, o, p, q, r, s, t, u, v)
LEAT_FIELDS(ServerHeartbeatReply, a, b, c, d, e, g, h, i, j, k, l, n, o, p, q, r, s, t, u, v)
LEAT_FIELDS(BotsHeartbeat, a, b, c, d, e, g)
LEAT_FIELDS(BotsHeartbeatReply, a, b, c, d)
LEAT_FIELDS(ClockSample, a, b, c)
LEAT_FIELDS(SpansRequest, a, b, c, d, e, g, h)
LEAT_FIELDS(SpansReply, a, b)
LEAT_FIELDS(TimelineProcess, a, b, c, d, e, g, h)
LEAT_FIELDS(TimelineRequest, a, b, c, d)
LEAT_FIELDS(TimelineReply, a, b, c, d, e, g, h, i, j)
LEAT_FIELDS(JobRequest, a)
LEAT_FIELDS(JobReply, a, b, c)
LEAT_FIELDS(PublisherReport, a, b, c, d, e, g)
LEAT_FIELDS(PublisherOrder, a, b, c, d, e)
LEAT_FIELDS(FeedHeartbeat, a, b, c, d, e, g, h, i)
LEAT_FIELDS(FeedHeartbeatReply, a, b, c, d, e, g)
LEAT_FIELDS(FollowProgress, a, b, c, d, e, g, h)
LEAT_FIELDS(ServeHeartbeat, a, b, c, d, e, g)
LEAT_FIELDS(ServeHeartbeatReply, a, b, c, d, e)
LEAT_FIELDS(KeepAlive, a, b, c, d)
LEAT_FIELDS(KeepAliveReply, a, b, c, d)
LEAT_FIELDS(StatusRequest, a)
LEAT_FIELDS(StatusReply, a)
LEAT_FIELDS(WorkerRange, a, b)
LEAT_FIELDS(AdminRequest, a, b, c, d, e, g)
LEAT_FIELDS(AdminReply, a)
LEAT_FIELDS(PoolRequest, a, b)
LEAT_FIELDS(PoolReply, a, b)
LEAT_FIELDS(Refusal, a)
#undef LEAT_FIELDS

// Fills a message with random valid values, including the limits of their ranges.
class Fill {
 public:
  explicit Fill(uint64_t seed) : rng_(seed) {}

  void operator()(bool& v) { v = rng_.Chance(0.5); }
  void operator()(uint32_t& v) { v = static_cast<uint32_t>(Number()); }
  void operator()(uint64_t& v) { v = Number(); }
  void operator()(int64_t& v) { v = static_cast<int64_t>(Number()); }
  void operator()(double& v) { v = rng_.Chance(0.1) ? 1e300 : rng_.Exponential(1e6); }
  void operator()(std::string& v) {
    v.resize(rng_.Below(40));
    for (char& c : v) c = static_cast<char>(rng_());  // not UTF-8
  }
  void operator()(Bytes& v) {
    v.resize(rng_.Below(3) * 500);
    for (std::byte& b : v) b = static_cast<std::byte>(rng_());
  }
  void operator()(Duration& v) { v = Duration(static_cast<int64_t>(rng_.Below(86'400'000'000'001))); }
  void operator()(Status& v) {
    std::string message;
    (*this)(message);
    v = Status(static_cast<Code>(rng_.Below(static_cast<uint64_t>(Code::kInternal) + 1)), message);
  }
  void operator()(SliceId& v) { v = SliceId(static_cast<uint32_t>(rng_.Below(1 << 20))); }
  template <class Tag, class Rep>
  void operator()(Id<Tag, Rep>& v) {
    v.value = static_cast<Rep>(Number());
  }
  void operator()(topology::HostPlace& v) {
    for (std::string* name : {&v.site, &v.zone, &v.host_class}) name->assign(rng_.Below(64), 'x');
  }
  void operator()(protocol::Role& v) { v = protocol::Role(rng_.Below(6)); }
  void operator()(protocol::Member::State& v) { v = protocol::Member::State(rng_.Below(3)); }
  void operator()(protocol::MoveReport::Stage& v) { v = protocol::MoveReport::Stage(rng_.Below(3)); }
  void operator()(protocol::MoveOrder::Kind& v) { v = protocol::MoveOrder::Kind(rng_.Below(3)); }
  void operator()(protocol::AdminRequest::Kind& v) { v = protocol::AdminRequest::Kind(rng_.Below(9)); }
  void operator()(protocol::PoolRequest::Kind& v) { v = protocol::PoolRequest::Kind(rng_.Below(5)); }
  void operator()(protocol::TimelineRequest::Kind& v) { v = protocol::TimelineRequest::Kind(rng_.Below(2)); }
  void operator()(protocol::Cut& v) {
    v.partition = static_cast<uint32_t>(rng_.Below(1 << 16));
    Spread(v);
    (*this)(v.begin.epoch);
    (*this)(v.begin.offset);
    v.begin.offset /= 2;
    v.end = v.begin.offset + 1 + rng_.Below(uint64_t{200} * v.batch_size);
    v.after = v.begin;
    if (v.begin.epoch > 0 && rng_.Chance(0.3)) v.after = {v.begin.epoch - 1, Number()};
  }
  void operator()(protocol::Lease& v) {
    (*this)(v.id);
    (*this)(v.cut);
    v.missing = Runs(v.cut);
    v.first_step = Number() >> 1;
    v.width = 1 + static_cast<uint32_t>(rng_.Below(protocol::StepLane::kMaxWidth));
    v.lane = static_cast<uint32_t>(rng_.Below(v.width));
    v.needed = 1 + static_cast<uint32_t>(rng_.Below(v.width));
    if (rng_.Chance(0.5)) {
      v.assigned = Runs(v.cut);
      v.assigned |= v.missing;
    }
    v.rate = Rate();
    (*this)(v.labels);
  }
  void operator()(protocol::LabelRange& v) {
    (*this)(v.end);
    v.begin = v.end - std::min(v.end, rng_.Below(1000));
  }
  void operator()(protocol::Round& v) {
    v.first_step = Number() >> 1;
    v.rate = Rate();
    v.lanes.resize(1 + rng_.Below(4));
    const uint64_t runs = 1 + rng_.Below(3);
    const bool late_labels = rng_.Chance(0.5);
    for (auto& part : v.lanes) {
      do {
        (*this)(part.cut);
      } while (part.cut.runs() < runs);
      part.assigned = protocol::RunSet(part.cut.runs());
      while (part.assigned.count() < runs)
        part.assigned.Add(static_cast<uint32_t>(rng_.Below(part.cut.runs())));
      if (late_labels) (*this)(part.labels.emplace());
    }
  }
  void operator()(protocol::RejectedRun& v) {
    (*this)(v.worker);
    (*this)(v.cut);
    v.run = static_cast<uint32_t>(rng_.Below(v.cut.runs()));
  }
  void operator()(std::vector<protocol::PartitionLedger>& v) {
    v.resize(rng_.Below(4));
    for (uint32_t p = 0; p < v.size(); ++p) {
      v[p].done = {static_cast<uint32_t>(rng_.Below(3)), rng_.Below(1'000'000)};
      protocol::Position at = v[p].done;
      for (uint64_t n = rng_.Below(4); n > 0; --n) {
        protocol::Cut cut;
        cut.partition = p;
        Spread(cut);
        cut.after = cut.begin = {at.epoch, at.offset + rng_.Below(3) * 100};
        if (rng_.Chance(0.2)) cut.begin = {at.epoch + 1, rng_.Below(50)};
        cut.end = cut.begin.offset + 1 + rng_.Below(uint64_t{200} * cut.batch_size);
        v[p].open.push_back({cut, Runs(cut)});
        at = cut.next();
      }
    }
  }
  void operator()(protocol::LedgerReport& v) {
    Fields(v, *this);
    v.first_partition = static_cast<uint32_t>(rng_.Below(1000));
    for (auto& partition : v.partitions) {
      for (auto& split : partition.open) split.cut.partition += v.first_partition;
    }
  }
  void operator()(protocol::WorkerHeartbeat& v) {
    Fields(v, *this);
    v.leases_wanted %= 1 << 16;
  }
  void operator()(protocol::UnsentScores& v) {
    Fields(v, *this);
    v.partition %= 1 << 16;
  }
  void operator()(protocol::CoordinatorSet& v) {
    Fields(v, *this);
    std::ranges::sort(v.coordinators);
  }
  void operator()(protocol::LeaseClaim& v) {
    Fields(v, *this);
    v.partition %= 1 << 16;
  }
  void operator()(protocol::PublisherOrder& v) {
    Fields(v, *this);
    v.partition %= 1 << 16;
    v.group %= 1 << 16;
  }
  void operator()(protocol::OpenSplit& v) {
    (*this)(v.cut);
    v.batches = Runs(v.cut);
  }
  void operator()(protocol::PublisherReport& v) {
    Fields(v, *this);
    v.partition %= 1 << 16;
    for (auto& split : v.held) split.cut.partition = v.partition;
  }
  void operator()(protocol::Refusal& v) {
    while (v.status.ok()) (*this)(v.status);
  }
  template <class T>
  void operator()(std::vector<T>& v) {
    v.resize(rng_.Below(5));
    for (T& one : v) (*this)(one);
  }
  template <class T>
  void operator()(Shared<T>& v) {
    if (rng_.Chance(0.5)) (*this)(v.emplace());
  }
  template <class T>
  void operator()(std::optional<T>& v) {
    if (rng_.Chance(0.5)) (*this)(v.emplace());
  }
  template <class... Ts>
  void operator()(std::variant<Ts...>& v) {
    const uint64_t kind = rng_.Below(sizeof...(Ts));
    uint64_t i = 0;
    ((i++ == kind ? (*this)(v.template emplace<Ts>()) : void()), ...);
  }
  template <class Message>
  void operator()(Message& v) requires requires(Fill f) {
    Fields(v, f);
  }
  { Fields(v, *this); }

 private:
  // Any magnitude, often at a limit of the range.
  uint64_t Number() {
    switch (rng_.Below(4)) {
      case 0:
        return rng_.Below(3);
      case 1:
        return ~uint64_t{0} - rng_.Below(3);
      default:
        return rng_() >> rng_.Below(64);
    }
  }
  float Rate() {
    return rng_.Chance(0.5) ? 1.0f : protocol::kMaxRate / static_cast<float>(1 + rng_.Below(99));
  }
  void Spread(protocol::Cut& cut) {
    cut.batch_size = 1 + static_cast<uint32_t>(rng_.Below(300));
    cut.hash = Number();
    cut.shuffle_seed = Number();
    cut.run = 1 + static_cast<uint32_t>(rng_.Below(4));
  }
  protocol::RunSet Runs(const protocol::Cut& cut) {
    protocol::RunSet set(cut.runs(), rng_.Chance(0.2));
    for (uint32_t i = 0; i < cut.runs(); ++i) {
      if (rng_.Chance(0.3)) set.Add(i);
    }
    return set;
  }

  Rng rng_;
};

// Renders a message as text that differs whenever a field differs.
class Dump {
 public:
  template <class T>
  void operator()(T& v) requires std::is_arithmetic_v<T> {
    if constexpr (std::is_same_v<T, double>) {
      text_ += std::to_string(std::bit_cast<uint64_t>(v)) + " ";
    } else {
      text_ += std::to_string(v) + " ";
    }
  }
  template <class T>
  void operator()(T& v) requires std::is_enum_v<T> {
    text_ += std::to_string(static_cast<int>(v)) + " ";
  }
  void operator()(std::string& v) { text_ += std::to_string(v.size()) + ":" + v; }
  void operator()(Bytes& v) { text_ += std::to_string(v.size()) + ":" + std::string(AsText(v)); }
  void operator()(Duration& v) { text_ += std::to_string(v.count()) + " "; }
  void operator()(Status& v) { text_ += v.ToString() + ";"; }
  template <class Tag, class Rep>
  void operator()(Id<Tag, Rep>& v) {
    text_ += std::to_string(v.value) + " ";
  }
  void operator()(protocol::RunSet& v) {
    text_ += std::to_string(v.size()) + "b";
    for (uint64_t word : v.words()) (*this)(word);
  }
  template <class T>
  void operator()(std::vector<T>& v) {
    text_ += std::to_string(v.size()) + "[";
    for (T& one : v) (*this)(one);
    text_ += "]";
  }
  template <class T>
  void operator()(Shared<T>& v) {
    std::optional<T> copy;
    if (v) copy = *v;
    (*this)(copy);
  }
  template <class T>
  void operator()(std::optional<T>& v) {
    text_ += v ? "?" : "-";
    if (v) (*this)(*v);
  }
  template <class... Ts>
  void operator()(std::variant<Ts...>& v) {
    text_ += std::to_string(v.index()) + "|";
    std::visit(*this, v);
  }
  template <class Message>
  void operator()(Message& v) requires requires(Dump d) {
    Fields(v, d);
  }
  { Fields(v, *this); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

template <class T>
std::string ToText(T message) {
  Dump dump;
  dump(message);
  return dump.text();
}

template <class T>
T Random(uint64_t seed) {
  T message;
  Fill fill(seed);
  fill(message);
  return message;
}

}  // namespace leat::control
