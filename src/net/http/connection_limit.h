// Limits the open connections of a listener, and selects the connection that ends to make room for a new one:
// peers that are not admitted yet keep no others out. Thread-safe.
#pragma once

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace leat::net {

// Peers with the same number are one host: an IPv4 address, or a /64 network of IPv6, since a peer with one
// address of it has all.
inline uint64_t HostNumber(const boost::asio::ip::address& address) {
  namespace ip = boost::asio::ip;
  if (address.is_v4()) return address.to_v4().to_uint();
  const ip::address_v6 v6 = address.to_v6();
  if (v6.is_v4_mapped()) return ip::make_address_v4(ip::v4_mapped, v6).to_uint();  // ::ffff:10.0.0.1
  uint64_t network = 0;
  std::memcpy(&network, v6.to_bytes().data(), sizeof(network));
  return network;
}

template <class Connection>
class ConnectionLimit {
  enum class State { kUnknown, kWaiting, kServed };
  struct Entry {
    std::weak_ptr<Connection> connection;
    uint64_t host = 0;
    uint64_t number = 0;  // in the order in which they came
    State state = State::kUnknown;
  };
  using Entries = std::list<Entry>;

 public:
  // Registration of a connection while it is open. For one thread at a time. It does not outlive the limit.
  class Place {
   public:
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() { limit_.Remove(entry_); }

    // The peer may ask, and waits for an answer: its connection ends for no other one.
    void BeginServing() { limit_.Move(entry_, State::kServed); }
    // The peer may ask, and is idle from now on.
    void BeginWaiting() { limit_.Move(entry_, State::kWaiting); }
    bool known() const { return entry_->state != State::kUnknown; }
    bool serving() const { return entry_->state == State::kServed; }

   private:
    friend class ConnectionLimit;
    Place(ConnectionLimit& limit, typename Entries::iterator entry) : limit_(limit), entry_(entry) {}
    ConnectionLimit& limit_;
    const typename Entries::iterator entry_;
  };

  explicit ConnectionLimit(size_t most) : most_(most) {}

  bool full() const {
    std::lock_guard lock(mutex_);
    return open_ >= most_;
  }
  // The place of a new connection, also beyond the limit.
  std::unique_ptr<Place> Add(const std::shared_ptr<Connection>& connection, uint64_t host) {
    std::lock_guard lock(mutex_);
    Entries& unknown = unknown_[host];
    unknown.push_back({.connection = connection, .host = host, .number = added_++});
    ++open_;
    return std::unique_ptr<Place>(new Place(*this, std::prev(unknown.end())));
  }
  // The connection to end: the oldest unknown one, of the host with most of them; if all are known, the one
  // that is idle for longest. Null: all are being served.
  std::shared_ptr<Connection> FirstToEnd() const {
    std::lock_guard lock(mutex_);
    const auto crowd = std::ranges::max_element(unknown_, {}, [](const auto& host) {
      return std::pair(host.second.size(), ~host.second.front().number);
    });
    if (crowd != unknown_.end()) {
      if (auto first = FirstOf(crowd->second)) return first;
    }
    return FirstOf(waiting_);
  }

 private:
  // Null: all of them are ending already.
  static std::shared_ptr<Connection> FirstOf(const Entries& entries) {
    for (const Entry& entry : entries) {
      if (auto connection = entry.connection.lock()) return connection;
    }
    return nullptr;
  }
  Entries& ListOf(const Entry& entry) {
    if (entry.state == State::kUnknown) return unknown_[entry.host];
    return entry.state == State::kWaiting ? waiting_ : served_;
  }
  void DropEmpty(const Entry& gone) {
    const auto at = unknown_.find(gone.host);
    if (at != unknown_.end() && at->second.empty()) unknown_.erase(at);
  }
  void Move(typename Entries::iterator entry, State state) {
    std::lock_guard lock(mutex_);
    Entries& from = ListOf(*entry);
    entry->state = state;
    Entries& to = ListOf(*entry);
    to.splice(to.end(), from, entry);
    DropEmpty(*entry);
  }
  void Remove(typename Entries::iterator entry) {
    std::lock_guard lock(mutex_);
    Entries gone;
    gone.splice(gone.end(), ListOf(*entry), entry);
    DropEmpty(*entry);
    --open_;
  }

  const size_t most_;
  mutable std::mutex mutex_;  // guards the members below
  size_t open_ = 0;
  uint64_t added_ = 0;
  std::map<uint64_t, Entries> unknown_;  // by host; in the order in which they came
  Entries waiting_, served_;             // in the order in which they began to
};

}  // namespace leat::net
