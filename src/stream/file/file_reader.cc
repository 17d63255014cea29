#include "stream/file/file_reader.h"

#include <fcntl.h>
#include <iconv.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/exit_status.h"
#include "base/files/descriptor.h"
#include "base/text.h"

namespace leat::stream {
namespace {

constexpr size_t kUnpackBytes = size_t{1} << 17;
constexpr size_t kHeadBytes = size_t{1} << 16;

std::string PlainName(const std::string& name) {
  std::string plain = Lower(name);
  std::erase_if(plain, [](char c) { return c == '-' || c == '_' || c == ' '; });
  return plain;
}

// Null if there is no such encoding.
iconv_t OpenEncoding(const std::string& name) {
  const bool good = !name.empty() && std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_.:").find(c) != std::string_view::npos;
  });
  if (!good) return nullptr;
  for (const std::string& spelling : {name, PlainName(name)}) {
    const iconv_t opened = iconv_open("UTF-8", spelling.c_str());
    if (opened != reinterpret_cast<iconv_t>(-1)) return opened;
  }
  return nullptr;
}

bool IsUtf8Name(const std::string& name) {
  const std::string plain = PlainName(name);
  return plain.empty() || plain == "utf8" || plain == "utf8sig";
}

constexpr size_t kLinesBlock = size_t{1} << 17;

}  // namespace

std::string WhyNoEncoding(const std::string& name) {
  if (!name.empty() && IsUtf8Name(name)) return "";
  if (const iconv_t opened = OpenEncoding(name); opened != nullptr) {
    iconv_close(opened);
    return "";
  }
  return "there is no encoding '" + name +
         "' here; names are those of iconv -l, such as latin-1, windows-1252 or utf-16";
}

class FileReader::Converter {
 public:
  explicit Converter(iconv_t opened) : iconv_(opened) {}
  ~Converter() { iconv_close(iconv_); }
  Converter(const Converter&) = delete;
  Converter& operator=(const Converter&) = delete;

  // Appends the text of the bytes to `out`; an incomplete character waits for more. False if one is invalid.
  bool Add(std::string_view bytes, std::string* out) {
    rest_.append(bytes);
    char* in = rest_.data();
    size_t left = rest_.size();
    std::array<char, 4096> buffer;
    for (;;) {
      char* to = buffer.data();
      size_t room = buffer.size();
      const size_t done = iconv(iconv_, &in, &left, &to, &room);
      const int error = errno;
      out->append(buffer.data(), buffer.size() - room);
      if (done != static_cast<size_t>(-1) || error == EINVAL) break;
      if (error == E2BIG) continue;
      read_ += rest_.size() - left;
      return false;
    }
    read_ += rest_.size() - left;
    rest_.erase(0, rest_.size() - left);
    return true;
  }
  bool complete() const { return rest_.empty(); }
  // Bytes converted: where an invalid one is.
  uint64_t read() const { return read_; }

 private:
  const iconv_t iconv_;
  std::string rest_;
  uint64_t read_ = 0;
};

// The bytes of a file or, if it begins like gzip, what its members hold. zlib's own reader of files takes
// whatever follows a member, such as one whose header is damaged, for the end.
class FileReader::File {
 public:
  File(Descriptor fd, uint64_t bytes) : fd_(std::move(fd)), bytes_(bytes), buffer_(kUnpackBytes, '\0') {}
  ~File() {
    if (gzip_) inflateEnd(&zlib_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Finds out whether it is gzip.
  Status Begin() {
    for (size_t read = 1; next_.size() < kMagic.size() && read > 0;) {
      LEAT_ASSIGN_OR_RETURN(read, ReadSome(buffer_.data() + next_.size(), buffer_.size() - next_.size()));
      next_ = {buffer_.data(), next_.size() + read};
    }
    if (!next_.starts_with(kMagic)) return {};
    if (const int code = inflateInit2(&zlib_, MAX_WBITS + 16); code != Z_OK)
      return {Code::kUnavailable, std::string("cannot be unpacked: ") + zError(code)};
    gzip_ = true;
    return {};
  }

  // The next bytes, at most `size` (> 0); 0 at the end.
  Result<size_t> Read(char* out, size_t size) {
    return gzip_ ? ReadMembers(out, size) : ReadPlain(out, size);
  }

 private:
  static constexpr std::string_view kMagic = "\x1f\x8b";

  Result<size_t> ReadSome(char* out, size_t size) {
    ssize_t read = -1;
    do read = ::read(fd_.get(), out, std::min<uint64_t>(size, bytes_ - at_));
    while (read < 0 && errno == EINTR);
    if (read < 0) return Status(CodeOfErrno(errno), std::string("cannot be read: ") + std::strerror(errno));
    at_ += static_cast<uint64_t>(read);
    return static_cast<size_t>(read);
  }

  Result<size_t> ReadPlain(char* out, size_t size) {
    if (next_.empty()) return ReadSome(out, size);
    const size_t taken = next_.copy(out, size);
    next_.remove_prefix(taken);
    return taken;
  }

  Result<size_t> ReadMembers(char* out, size_t size) {
    const auto room = static_cast<uInt>(std::min<size_t>(size, size_t{1} << 30));
    zlib_.next_out = reinterpret_cast<Bytef*>(out);
    zlib_.avail_out = room;
    while (zlib_.avail_out == room) {
      // Zeros are what tapes and block devices are filled up with.
      if (!inside_) next_.remove_prefix(std::min(next_.find_first_not_of('\0'), next_.size()));
      if (next_.empty()) {
        LEAT_ASSIGN_OR_RETURN(const size_t read, ReadSome(buffer_.data(), buffer_.size()));
        next_ = {buffer_.data(), read};
        if (read > 0) continue;
        if (inside_) return Damaged("it ends too early");
        return size_t{0};
      }
      inside_ = true;
      zlib_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(next_.data()));
      zlib_.avail_in = static_cast<uInt>(next_.size());
      const int code = inflate(&zlib_, Z_NO_FLUSH);
      if (code != Z_OK && code != Z_STREAM_END)
        return Damaged(zlib_.msg != nullptr ? zlib_.msg : zError(code));
      next_.remove_prefix(next_.size() - zlib_.avail_in);
      if (code == Z_STREAM_END) {
        inside_ = false;
        inflateReset(&zlib_);
      }
    }
    return size_t{room - zlib_.avail_out};
  }

  Status Damaged(const std::string& why) const {
    return {Code::kDataLoss, StrCat("cannot be unpacked: ", why, " (gzip, byte ", at_ - next_.size(), ")")};
  }

  const Descriptor fd_;
  const uint64_t bytes_;
  std::string buffer_;
  std::string_view next_;  // rest of the buffer, not taken yet
  uint64_t at_ = 0;        // bytes of the file that were read
  bool gzip_ = false;
  bool inside_ = false;  // a member
  z_stream zlib_{};
};

FileReader::FileReader(std::unique_ptr<File> file, std::string path)
    : file_(std::move(file)), path_(std::move(path)) {}

FileReader::~FileReader() = default;

Result<std::unique_ptr<FileReader>> FileReader::Open(const std::string& path, const Options& options) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return Status(Code::kNotFound, path + ": " + std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return Status(Code::kNotFound, path + ": is not a file");
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return Status(Code::kPermissionDenied, path + ": " + std::strerror(errno));
  std::unique_ptr<FileReader> reader(
      new FileReader(std::make_unique<File>(std::move(fd), options.bytes), path));
  LEAT_RETURN_IF_ERROR(reader->file_->Begin().With(path));

  const bool encoded = !IsUtf8Name(options.encoding);
  std::string raw(kHeadBytes, '\0');
  LEAT_ASSIGN_OR_RETURN(const size_t size, reader->Unpack(raw.data(), raw.size()));
  raw.resize(size);
  std::string wrong = WrongBytes(raw, options.format, path, encoded);
  if (wrong.empty() && encoded) {
    const iconv_t opened = OpenEncoding(options.encoding);
    if (opened == nullptr)
      return Status(Code::kInvalidArgument, path + ": " + WhyNoEncoding(options.encoding));
    reader->converter_ = std::make_unique<Converter>(opened);
    if (!reader->converter_->Add(raw, &reader->pending_)) {
      return Status(Code::kDataLoss, StrCat(path, ": byte ", reader->converter_->read(),
                                            " is not text of the encoding ", options.encoding));
    }
  } else {
    reader->pending_ = std::move(raw);
  }
  if (options.format != "text" && reader->pending_.starts_with(kByteOrderMark))
    reader->pending_.erase(0, kByteOrderMark.size());
  reader->head_ = reader->pending_;
  if (wrong.empty()) wrong = WrongText(reader->head_, options.format, path);
  if (!wrong.empty()) return Status(Code::kDataLoss, path + ": " + wrong);
  return reader;
}

Result<size_t> FileReader::Unpack(char* out, size_t size) {
  return file_->Read(out, size).With(path_);
}

Result<bool> FileReader::Convert() {
  std::string raw(kUnpackBytes, '\0');
  LEAT_ASSIGN_OR_RETURN(const size_t size, Unpack(raw.data(), raw.size()));
  raw.resize(size);
  const bool good = size > 0 ? converter_->Add(raw, &pending_) : converter_->complete();
  if (!good) {
    return Status(Code::kDataLoss,
                  StrCat(path_, ": byte ", converter_->read(), " is not text of its encoding"));
  }
  return size > 0;
}

Result<size_t> FileReader::Read(char* out, size_t size) {
  if (returned_ == pending_.size()) {
    pending_.clear();
    returned_ = 0;
    if (converter_ == nullptr) return Unpack(out, size);
    while (pending_.empty()) {
      LEAT_ASSIGN_OR_RETURN(const bool more, Convert());
      if (!more) return size_t{0};
    }
  }
  const size_t taken = std::min(size, pending_.size() - returned_);
  std::copy_n(pending_.data() + returned_, taken, out);
  returned_ += taken;
  return taken;
}

Result<Bytes> ReadWholeFile(const std::string& path, const FileReader::Options& options) {
  LEAT_ASSIGN_OR_RETURN(const auto reader, FileReader::Open(path, options));
  Bytes bytes;
  for (size_t size = 0;;) {
    if (size == bytes.size()) bytes.resize(std::max<size_t>(1 << 20, 2 * size));
    LEAT_ASSIGN_OR_RETURN(const size_t read,
                          reader->Read(reinterpret_cast<char*>(bytes.data()) + size, bytes.size() - size));
    size += read;
    if (read > 0) continue;
    bytes.resize(size);
    return bytes;
  }
}

LineReader::LineReader(std::unique_ptr<FileReader> file, std::string path, std::optional<CsvDialect> csv)
    : file_(std::move(file)), path_(std::move(path)), csv_(csv), buffer_(kLinesBlock + kPadding, '\0') {}

Result<std::unique_ptr<LineReader>> LineReader::Open(const std::string& path,
                                                     const FileReader::Options& options,
                                                     std::optional<CsvDialect> csv) {
  LEAT_ASSIGN_OR_RETURN(auto file, FileReader::Open(path, options));
  return std::unique_ptr<LineReader>(new LineReader(std::move(file), path, csv));
}

Result<bool> LineReader::Fill() {
  if (begin_ > 0) {
    std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
              buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
    end_ -= std::exchange(begin_, 0);
  }
  if (end_ > kMaxLine) {
    const bool quoted = csv_ && std::string_view(buffer_).substr(0, end_).find('\n') < end_;
    return Status(Code::kDataLoss, StrCat(path_, ":", next_line_, ": has more than ", kMaxLine, " bytes; ",
                                          quoted ? "is a quote not closed?" : "is this a file of lines?"));
  }
  if (buffer_.size() < end_ + kLinesBlock + kPadding)
    buffer_.resize(std::max(2 * end_, end_ + kLinesBlock) + kPadding);
  LEAT_ASSIGN_OR_RETURN(const size_t read, file_->Read(buffer_.data() + end_, kLinesBlock));
  end_ += read;
  return read > 0;
}

Result<bool> LineReader::Next(std::string_view* record) {
  const CsvDialect dialect = csv_.value_or(CsvDialect{.quote = '\0'});
  size_t looked = 0;  // bytes without a line end
  for (;;) {
    const std::string_view rest(buffer_.data() + begin_, end_ - begin_);
    const bool line = ended_ || rest.find('\n', looked) != rest.npos;
    if (line && rest.empty()) return false;
    const CsvRecord first = line ? FirstCsvRecord(rest, dialect) : CsvRecord();
    if (!ended_ && (!line || first.open || first.end == rest.size())) {
      looked = rest.size();  // its end is in what comes
      LEAT_ASSIGN_OR_RETURN(const bool more, Fill());
      ended_ = !more;
      continue;
    }
    *record = rest.substr(0, first.end);
    begin_ += first.next;
    line_ = next_line_;
    next_line_ += 1 + static_cast<uint64_t>(std::ranges::count(*record, '\n'));
    looked = 0;
    if (TrimCsvRecord(dialect, record)) return true;
  }
}

Result<std::string> SampleText(const std::string& path, const FileReader::Options& options) {
  LEAT_ASSIGN_OR_RETURN(const auto file, FileReader::Open(path, options));
  std::string text(kSampleBytes, '\0');
  size_t size = 0;
  while (size < text.size()) {
    LEAT_ASSIGN_OR_RETURN(const size_t read, file->Read(text.data() + size, text.size() - size));
    if (read == 0) break;
    size += read;
  }
  const bool whole = size < text.size();
  text.resize(size);
  if (const size_t end = text.rfind('\n'); !whole && end != text.npos) text.resize(end + 1);
  if (text.find_first_not_of(" \t\r\n") == text.npos)
    return Status(Code::kDataLoss, path + ": has no records");
  return text;
}

}  // namespace leat::stream
