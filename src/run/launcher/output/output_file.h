// A file that a user names, for a command's output.
//
// Links are followed. Whatever is no regular file (a pipe, a device, a descriptor such as /dev/stdout) is
// written to as it is. A regular file has its new content once Close returns ok, and the old one until then;
// it keeps its mode and owner, and a new one has the mode that the umask says. Not thread-safe.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "base/status.h"

namespace leat::launcher {

class OutputFile {
 public:
  // Errors have one line with the path: kNotFound, kPermissionDenied, kResourceExhausted, kInvalidArgument.
  // Waits for the reader of a pipe.
  static Result<OutputFile> Open(const std::string& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile() {  // without Close, a regular file stays as it was
    if (fd_ >= 0) close(fd_);
    if (!temporary_.empty()) unlink(temporary_.c_str());
  }

  Status Write(std::string_view text);
  Status Close();
  bool is_standard_output() const { return standard_output_; }

 private:
  explicit OutputFile(const std::string& path) : path_(path) {}
  Status OpenDirectly(int flags);
  Status OpenBeside(unsigned mode, unsigned owner, unsigned group, bool there);
  Status Failed(int error) const;

  std::string path_;       // as the user says
  std::string target_;     // behind links
  std::string temporary_;  // renamed to the target by Close; empty: it is written to directly
  std::string held_;       // written by Close
  bool holds_ = false;
  bool standard_output_ = false;
  int fd_ = -1;
};

// The same with the whole content.
Status WriteOutput(const std::string& path, std::string_view text);
// Where a command that writes this file says more: on stdout, or on stderr if that is the file.
inline std::FILE* MessagesBeside(const OutputFile& file) {
  return file.is_standard_output() ? stderr : stdout;
}

}  // namespace leat::launcher
