#include "compute/engine/run/rendezvous.h"

#include <cstring>
#include <string>

namespace leat::engine {
namespace {

void Copy(std::span<const std::byte> from, std::span<std::byte> to) {
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
}

Status WrongSize(const TransferKey& key, size_t sent, size_t wanted) {
  return {Code::kDataLoss, "edge " + std::to_string(key.edge) + " of run " + std::to_string(key.run) + ": " +
                               std::to_string(sent) + " bytes sent, " + std::to_string(wanted) + " expected"};
}

Status Stale(const TransferKey& key, uint64_t now) {
  return {Code::kStale, "edge " + std::to_string(key.edge) + " is at run " + std::to_string(now) + ", not " +
                            std::to_string(key.run)};
}

}  // namespace

LocalRendezvous::Edge* LocalRendezvous::At(const TransferKey& key) {
  LEAT_CHECK(key.edge < edges_.size());
  Edge& edge = edges_[key.edge];
  if (key.run < edge.run) return nullptr;
  if (key.run > edge.run) {
    edge.run = key.run;
    edge.receiver = nullptr;
    edge.sent = false;
  }
  return &edge;
}

Status LocalRendezvous::Send(const TransferKey& key, std::span<const std::byte> elements) {
  Receiver* receiver = nullptr;
  std::span<std::byte> into;
  {
    std::lock_guard lock(mutex_);
    if (!aborted_.ok()) return aborted_;
    Edge* edge = At(key);
    if (edge == nullptr) return Stale(key, edges_[key.edge].run);
    if (edge->sent)
      return {Code::kFailedPrecondition, "edge " + std::to_string(key.edge) + " was sent twice"};
    edge->sent = true;
    if (edge->receiver == nullptr) {
      edge->early.assign(elements.begin(), elements.end());
      return {};
    }
    receiver = edge->receiver;
    into = edge->into;
    // This call notifies the receiver, so Abort must not.
    edge->receiver = nullptr;
  }
  const Status status =
      into.size() == elements.size() ? Status() : WrongSize(key, elements.size(), into.size());
  if (status.ok()) Copy(elements, into);
  receiver->Arrived(key, status);
  return status;
}

void LocalRendezvous::Receive(const TransferKey& key, std::span<std::byte> into, Receiver& receiver) {
  Status status;
  {
    std::lock_guard lock(mutex_);
    Edge* edge = aborted_.ok() ? At(key) : nullptr;
    if (!aborted_.ok()) {
      status = aborted_;
    } else if (edge == nullptr) {
      status = Stale(key, edges_[key.edge].run);
    } else if (!edge->sent) {
      edge->into = into;
      edge->receiver = &receiver;
      return;
    } else if (edge->early.size() != into.size()) {
      status = WrongSize(key, edge->early.size(), into.size());
    } else {
      Copy(edge->early, into);
    }
  }
  receiver.Arrived(key, status);
}

void LocalRendezvous::Abort(const Status& why) {
  std::vector<std::pair<TransferKey, Receiver*>> waiting;
  {
    std::lock_guard lock(mutex_);
    if (!aborted_.ok()) return;
    aborted_ = why;
    for (uint32_t i = 0; i < edges_.size(); ++i) {
      if (edges_[i].receiver == nullptr) continue;
      waiting.emplace_back(TransferKey{edges_[i].run, i}, edges_[i].receiver);
      edges_[i].receiver = nullptr;
    }
  }
  for (const auto& [key, receiver] : waiting) receiver->Arrived(key, why);
}

}  // namespace leat::engine
