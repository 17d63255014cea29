#include "stream/decode/lines.h"

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/bytes.h"

namespace leat::stream {
namespace {

constexpr size_t kBlock = size_t{1} << 17;

}  // namespace

struct LineReader::File {
  explicit File(gzFile opened) : gz(opened) {}
  ~File() { gzclose(gz); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const gzFile gz;
};

LineReader::LineReader(std::unique_ptr<File> file, std::string path)
    : file_(std::move(file)), path_(std::move(path)), buffer_(kBlock + kPadding, '\0') {}

LineReader::~LineReader() = default;

Result<std::unique_ptr<LineReader>> LineReader::Open(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return Status(Code::kNotFound, path + ": " + std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return Status(Code::kNotFound, path + ": is not a file");
  const gzFile gz = gzopen(path.c_str(), "rb");
  if (gz == nullptr) return Status(Code::kPermissionDenied, path + ": " + std::strerror(errno));
  gzbuffer(gz, kBlock);
  return std::unique_ptr<LineReader>(new LineReader(std::make_unique<File>(gz), path));
}

Result<bool> LineReader::Fill() {
  if (begin_ > 0) {
    std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
              buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
    end_ -= std::exchange(begin_, 0);
  }
  if (end_ > kMaxLine) {
    return Status(Code::kDataLoss, path_ + ":" + std::to_string(line_ + 1) + ": has more than " +
                                       std::to_string(kMaxLine) + " bytes; is this a file of lines?");
  }
  if (buffer_.size() < end_ + kBlock + kPadding) buffer_.resize(std::max(2 * end_, end_ + kBlock) + kPadding);
  const int read = gzread(file_->gz, buffer_.data() + end_, kBlock);
  int error = Z_OK;
  const char* const why = gzerror(file_->gz, &error);
  if (read < 0 || error == Z_BUF_ERROR) {  // the latter: the compressed data ends too early
    return Status(Code::kDataLoss, path_ + ": cannot be unpacked: " + why);
  }
  end_ += static_cast<size_t>(read);
  return read > 0;
}

Result<bool> LineReader::Next(std::string_view* line) {
  size_t looked = 0;  // bytes without a line end
  for (;;) {
    const std::string_view rest(buffer_.data() + begin_, end_ - begin_);
    size_t at = rest.find('\n', looked);
    if (at == rest.npos) {
      looked = rest.size();
      LEAT_ASSIGN_OR_RETURN(const bool more, Fill());
      if (more) continue;
      if (begin_ == end_) return false;
      at = end_ - begin_;
    }
    *line = std::string_view(buffer_.data() + begin_, at);
    begin_ += std::min(at + 1, end_ - begin_);
    looked = 0;
    if (++line_ == 1 && line->starts_with(kByteOrderMark)) line->remove_prefix(kByteOrderMark.size());
    if (line->ends_with('\r')) line->remove_suffix(1);
    if (line->find_first_not_of(" \t") != line->npos) return true;
  }
}

}  // namespace leat::stream
