// Content that a service publishes: bytes that can be read at any offset. Reads never block on a peer.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"
#include "storage/checkpoint/file.h"

namespace leat::transfer {

// Thread-safe.
class Content {
 public:
  virtual ~Content() = default;
  virtual uint64_t size() const = 0;
  // Fills all of `out`, which ends at size() or before.
  virtual Status ReadAt(uint64_t offset, std::span<std::byte> out) const = 0;
};

// An opened file with the size that it has now. It stays readable after the file is renamed or removed.
class FileContent final : public Content {
 public:
  static Result<std::shared_ptr<const Content>> Open(const std::string& path);
  FileContent(checkpoint::File file, uint64_t size) : file_(std::move(file)), size_(size) {}
  uint64_t size() const override { return size_; }
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    return file_.ReadAt(offset, out);
  }

 private:
  const checkpoint::File file_;
  const uint64_t size_;
};

}  // namespace leat::transfer
