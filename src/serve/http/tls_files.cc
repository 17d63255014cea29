#include "serve/http/tls_files.h"

#include <boost/asio/ssl/context.hpp>
#include <utility>

#include "base/log.h"
#include "net/security/private_file.h"
#include "serve/file_stamp.h"

namespace leat::serve {
namespace {

namespace ssl = boost::asio::ssl;

}  // namespace

Result<std::unique_ptr<TlsFiles>> TlsFiles::Load(std::string certificate, std::string key) {
  std::unique_ptr<TlsFiles> files(new TlsFiles(std::move(certificate), std::move(key)));
  files->stamp_ = files->Stamp();
  LEAT_RETURN_IF_ERROR(files->Read());
  return files;
}

std::string TlsFiles::Stamp() const {
  return FileStamp(certificate_) + " " + FileStamp(key_);
}

Status TlsFiles::Read() {
  LEAT_ASSIGN_OR_RETURN(const std::string certificate, net::ReadPublicFile(certificate_));
  LEAT_ASSIGN_OR_RETURN(const std::string key, net::ReadPrivateFile(key_));
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_RENEGOTIATION);
  boost::system::error_code error;
  context->use_certificate_chain(boost::asio::buffer(certificate), error);
  if (error) return {Code::kInvalidArgument, certificate_ + ": not a certificate in PEM"};
  context->use_private_key(boost::asio::buffer(key), ssl::context::pem, error);
  if (error) return {Code::kInvalidArgument, key_ + ": not the key of " + certificate_ + " in PEM"};
  context_ = std::move(context);
  return {};
}

std::shared_ptr<ssl::context> TlsFiles::context(Time now) {
  constexpr Duration kLook = std::chrono::seconds(1);
  std::lock_guard lock(mutex_);
  if (now < looked_ + kLook) return context_;
  looked_ = now;
  std::string stamp = Stamp();
  if (stamp == stamp_) return context_;
  stamp_ = std::move(stamp);
  const Status status = Read();
  if (status.ok()) {
    spdlog::info("{} is read again", certificate_);
  } else {
    spdlog::warn("the former certificate stays in use: {}", status.message());
  }
  return context_;
}

}  // namespace leat::serve
