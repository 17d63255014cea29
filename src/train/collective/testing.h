// Helpers for tests of groups: members in one process, each with its own loop, transport and port.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "net/fault/testing.h"
#include "net/inproc/testing.h"
#include "net/testing.h"
#include "net/transports.h"
#include "train/collective/peer_all_reduce.h"

namespace leat::collective::testing {

inline std::vector<float> RandomFloats(size_t n, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(n);
  for (auto& v : values) v = static_cast<float>(static_cast<int64_t>(rng() >> 40) - (1 << 23)) * 1e-3f;
  return values;
}

// Members whose loops run alternately on one thread.
class Cluster {
 public:
  struct Settings {
    uint32_t members = 2;
    uint64_t group = 1;
    PeerOptions options = {};
    std::shared_ptr<net::Faults> faults = nullptr;
    bool tcp = false;
    bool ucx = false;
  };
  struct Member {
    std::unique_ptr<net::Loop> loop = std::make_unique<net::Loop>();
    std::unique_ptr<net::Transport> transport;
    std::unique_ptr<Port> port = std::make_unique<Port>();
    std::unique_ptr<net::Listener> listener;
    std::unique_ptr<PeerAllReduce> all;
    std::optional<Status> formed;
    bool frozen = false;  // its loop does not run
  };

  explicit Cluster(Settings settings) : settings_(std::move(settings)), members_(settings_.members) {
    for (auto& m : members_) {
      const net::TransportOptions options{.token = "job"};
      m.transport = settings_.ucx   ? net::MakeUcxTransport(*m.loop, options)
                    : settings_.tcp ? net::MakeTcpTransport(*m.loop, options)
                                    : net::MakeInprocTransport(*m.loop, hub_, options);
      if (settings_.faults != nullptr)
        m.transport = net::MakeFaultTransport(*m.loop, std::move(m.transport), settings_.faults);
      auto listener = m.transport->Listen("127.0.0.1:0", [&m](std::unique_ptr<net::Connection> caller) {
        return m.port->Adopt(std::move(caller));
      });
      m.listener = std::move(listener).value();
    }
  }
  ~Cluster() {
    for (auto& m : members_) {
      m.all.reset();
      m.listener.reset();
      m.port.reset();
      m.transport.reset();
    }
  }

  Member& operator[](size_t rank) { return members_[rank]; }
  size_t size() const { return members_.size(); }
  std::vector<std::string> Addresses() const {
    std::vector<std::string> addresses;
    for (const auto& m : members_) addresses.push_back(m.listener->address());
    return addresses;
  }

  // Member `rank` begins to form the group.
  void Form(uint32_t rank) {
    PeerOptions options = settings_.options;
    options.group.group = settings_.group;
    options.group.rank = rank;
    options.group.addresses = Addresses();
    Member& m = members_[rank];
    m.formed.reset();
    m.all = std::make_unique<PeerAllReduce>(*m.loop, *m.transport, *m.port, std::move(options),
                                            [&m](const Status& status) { m.formed = status; });
  }
  // Forms the whole group; false if a member failed.
  bool FormAll() {
    for (uint32_t rank = 0; rank < size(); ++rank) Form(rank);
    return Run([&] {
      for (const auto& m : members_) {
        if (!m.formed.has_value() || !m.formed->ok()) return false;
      }
      return true;
    });
  }
  void NextGroup() { ++settings_.group; }

  // Runs the members' loops alternately until `condition` holds.
  bool Run(const std::function<bool()>& condition, Duration deadline = std::chrono::seconds(60)) {
    const Time end = MonotonicClock().Now() + deadline;
    while (!condition()) {
      if (MonotonicClock().Now() > end) return false;
      for (auto& m : members_) {
        if (m.loop != nullptr && !m.frozen) m.loop->RunOnce(Duration::zero());
      }
    }
    return true;
  }

  // Disappears without a message, like a killed process.
  void Kill(uint32_t rank) {
    Member& m = members_[rank];
    m.all.reset();
    m.listener.reset();
    m.port = std::make_unique<Port>();
    m.frozen = true;
  }

 private:
  Settings settings_;
  std::shared_ptr<net::InprocHub> hub_ = std::make_shared<net::InprocHub>();
  std::vector<Member> members_;
};

}  // namespace leat::collective::testing
