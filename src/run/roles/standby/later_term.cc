#include "run/roles/standby/later_term.h"

#include <chrono>
#include <utility>

#include "run/roles/standby/election.h"

namespace leat::roles {
namespace {

constexpr Duration kLaterTermPause = std::chrono::seconds(3);  // between two questions

}  // namespace

LaterTermWatch::LaterTermWatch(net::Loop& loop, BackgroundThread& others, const CoordinatorOptions& options,
                               uint64_t coordinator, uint64_t term,
                               std::function<void(const Status&)> on_replaced)
    : loop_(loop),
      others_(others),
      options_(options),
      coordinator_(coordinator),
      term_(term),
      on_replaced_(std::move(on_replaced)) {}

void LaterTermWatch::OnView(const protocol::View& view) {
  if (auto standbys = view.standbys(); !standbys.empty()) standbys_ = std::move(standbys);
}

void LaterTermWatch::OnTimer(Time now, bool unconfirmed) {
  if (!unconfirmed) {
    asked_ = now;
    return;
  }
  if (now - asked_ <= kLaterTermPause) return;
  asked_ = now;
  if (standbys_.empty()) return;
  others_.Post([this, addresses = standbys_] {
    const auto term = AskForLaterTerm(addresses, coordinator_, term_, options_);
    if (!term) return;
    loop_.Post([this, term] {
      on_replaced_(Status(Code::kStale, "a coordinator of term " + std::to_string(protocol::NumberOf(*term)) +
                                            " has replaced this one"));
    });
  });
}

}  // namespace leat::roles
