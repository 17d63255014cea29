// For tests with real roles in one process.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "base/status.h"
#include "base/testing.h"

namespace leat::roles {

// A role on a thread.
class Thread {
 public:
  explicit Thread(std::function<Status()> role)
      : thread_([this, role = std::move(role)] {
          status_ = role();
          over_ = true;
        }) {}
  ~Thread() { thread_.join(); }
  bool over() const { return over_; }
  // Once it is over.
  const Status& Wait() {
    EXPECT_TRUE(WaitFor([this] { return over(); }));
    return status_;
  }

 private:
  Status status_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace leat::roles
