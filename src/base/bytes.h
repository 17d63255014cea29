// Little-endian byte writer, bounds-checked byte reader, and the checksums of files and frames.
//
// ByteReader is safe on untrusted input: it checks every length before it reads or allocates, and it never
// throws. The first bad read makes it fail permanently; later reads return zeros. Callers check ok() or
// Done() once at the end. Not thread-safe.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace leat {

static_assert(std::endian::native == std::endian::little,
              "Leat's formats are little-endian and copied straight from memory");

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

// 64-bit XXH3. Detects truncated and corrupted data; not cryptographic.
uint64_t Checksum(ByteView bytes, uint64_t seed = 0);
// CRC-32C (Castagnoli), the checksum of iSCSI, S3 and TFRecord.
uint32_t Crc32c(ByteView bytes);

inline ByteView AsBytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view AsText(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class ByteWriter {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void Put(T value) { std::memcpy(Extend(sizeof(T)), &value, sizeof(T)); }
  void PutRaw(ByteView bytes) {
    if (!bytes.empty()) std::memcpy(Extend(bytes.size()), bytes.data(), bytes.size());
  }
  // Writes a u32 length, then the bytes.
  void PutString(std::string_view text) {
    Put(static_cast<uint32_t>(text.size()));
    PutRaw(AsBytes(text));
  }
  // Overwrites the bytes at `offset`, for example a length that is known only at the end.
  template <class T>
  void PatchAt(size_t offset, T value) {
    std::memcpy(bytes_.data() + offset, &value, sizeof(T));
  }
  size_t size() const { return size_; }
  ByteView view() const { return ByteView(bytes_).first(size_); }
  Bytes Take() {
    bytes_.resize(std::exchange(size_, 0));
    return std::move(bytes_);
  }

 private:
  std::byte* Extend(size_t by) {
    constexpr size_t kLeast = 64;
    if (bytes_.size() < size_ + by) bytes_.resize(std::max({kLeast, 2 * bytes_.size(), size_ + by}));
    return bytes_.data() + std::exchange(size_, size_ + by);
  }

  Bytes bytes_;  // longer than the written bytes: a vector takes long to grow by each number
  size_t size_ = 0;
};

class ByteReader {
 public:
  explicit ByteReader(ByteView bytes) : bytes_(bytes) {}

  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T> T Get() {
    T value{};
    if (!Take(sizeof(T))) return value;
    std::memcpy(&value, bytes_.data() + at_ - sizeof(T), sizeof(T));
    return value;
  }
  ByteView GetRaw(uint64_t size) {
    if (!Take(size)) return {};
    return bytes_.subspan(at_ - size, size);
  }
  // Reads a u32 length, then that many bytes. Fails if the length exceeds `limit`.
  std::string GetString(uint32_t limit) {
    const auto size = Get<uint32_t>();
    if (size > limit) ok_ = false;
    return std::string(AsText(GetRaw(ok_ ? size : 0)));
  }
  void Fail() { ok_ = false; }
  bool ok() const { return ok_; }
  // ok() and nothing is left to read.
  bool Done() const { return ok_ && remaining() == 0; }
  size_t remaining() const { return ok_ ? bytes_.size() - at_ : 0; }

 private:
  bool Take(uint64_t size) {
    if (!ok_ || size > bytes_.size() - at_) {
      ok_ = false;
      return false;
    }
    at_ += size;
    return true;
  }

  ByteView bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace leat
