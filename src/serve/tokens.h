// The tokens of those who may ask for predictions: a file with one token a line. They are not the job's
// token, with which one could train.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"

namespace leat::serve {

// Thread-safe.
class Tokens {
 public:
  static constexpr size_t kLeastCharacters = 16;

  // Blank lines, and what follows a #, are ignored. The errors name the file: kNotFound, kPermissionDenied
  // (other users can read it), kInvalidArgument with the line (a token that is too short or has blanks), or
  // if it has none.
  static Result<std::unique_ptr<Tokens>> Load(std::string path);

  // Whether it is one of them. A file that has changed is read, at most once a second; if it is refused, the
  // former tokens stay valid, and a line in the log says why.
  bool Accepts(std::string_view token, Time now);

 private:
  using Digest = std::array<unsigned char, 32>;
  explicit Tokens(std::string path) : path_(std::move(path)) {}
  Status Read();

  const std::string path_;
  std::mutex mutex_;
  std::string stamp_;  // stamp of the file at the last look
  Time looked_{};
  std::set<Digest> digests_;  // the time of a comparison tells nothing about a token
};

}  // namespace leat::serve
