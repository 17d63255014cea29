// The certificate of a server whose clients have none: TLS for whoever speaks HTTP, not between roles.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace boost::asio::ssl {
class context;
}

namespace leat::serve {

// Thread-safe.
class TlsFiles {
 public:
  // PEM. The errors name the file: kNotFound, kPermissionDenied (a key that other users can read),
  // kInvalidArgument (no PEM, or not the key of the certificate).
  static Result<std::unique_ptr<TlsFiles>> Load(std::string certificate, std::string key);

  // What new connections begin with. Files that have changed are read, at most once a second; if they are
  // refused, the former ones stay in use, and a line in the log says why.
  std::shared_ptr<boost::asio::ssl::context> context(Time now);

 private:
  TlsFiles(std::string certificate, std::string key)
      : certificate_(std::move(certificate)), key_(std::move(key)) {}
  std::string Stamp() const;
  Status Read();

  const std::string certificate_, key_;
  std::mutex mutex_;
  std::string stamp_;  // of the files that were looked at last
  Time looked_{};
  std::shared_ptr<boost::asio::ssl::context> context_;
};

}  // namespace leat::serve
