// A Kafka broker on this machine that lives as long as a demo: what `tools/kafka` starts.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"

namespace leat::launcher {

// `tools/kafka` of the checkout that this program was built in, or below the current directory. kNotFound if
// there is none.
Result<std::string> FindBrokerTool();

// Not thread-safe.
class LocalBroker {
 public:
  // Starts a broker on a free port of loopback, with its topics below `directory`. SIGINT and SIGTERM must be
  // blocked; one of them ends the attempt (kAborted). The tool prints why it fails on stderr.
  static Result<std::unique_ptr<LocalBroker>> Start(const std::string& tool, const std::string& directory);
  ~LocalBroker();  // ends it
  LocalBroker(const LocalBroker&) = delete;
  LocalBroker& operator=(const LocalBroker&) = delete;

  const std::string& address() const { return address_; }  // "127.0.0.1:9092"

 private:
  LocalBroker(std::string tool, std::string directory)
      : tool_(std::move(tool)), directory_(std::move(directory)) {}

  const std::string tool_, directory_;
  std::string address_;
};

}  // namespace leat::launcher
