// A private directory for temporary files of one process.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "net/same_host/same_host_peer.h"

namespace leat::roles {

// Removed with everything in it by the destructor; after a crash, by the next process of this user that makes
// one in the same place.
class Scratch {
 public:
  // Makes `<parent>/leat-scratch-<random>`, which only its owner can read (0700), and `parent` if it does not
  // exist. Errors name the directory.
  static Result<std::unique_ptr<Scratch>> Make(const std::string& parent);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& path() const { return path_; }

 private:
  Scratch(std::string path, net::Descriptor lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  const std::string path_;
  const net::Descriptor lock_;
};

// The parent of a role's scratch directory: `given`, or $TMPDIR. Otherwise kInvalidArgument: `why` there has
// to be one, and what to set.
Result<std::string> ScratchParent(const std::string& given, const std::string& why);

}  // namespace leat::roles
