#include "net/security/certificate.h"

#include <fcntl.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/path/paths.h"
#include "base/text.h"
#include "net/address.h"
#include "net/same_host/same_host_peer.h"
#include "net/security/openssl.h"
#include "net/security/private_file.h"

namespace leat::net {
namespace openssl {
namespace {

constexpr std::string_view kRolePrefix = "leat:role:";

Bio Memory(std::string_view text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

}  // namespace

Certificate ParseCertificate(std::string_view pem) {
  Certificate certificate(PEM_read_bio_X509(Memory(pem).get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return certificate;
}

Chain ParseChain(std::string_view pem) {
  Chain chain;
  const Bio text = Memory(pem);
  while (X509* const next = PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr))
    chain.emplace_back(next);
  ERR_clear_error();
  return chain;
}

Key ParseKey(std::string_view pem) {
  // Without a callback, OpenSSL would ask the terminal for the password of an encrypted key.
  const auto no_password = [](char*, int, int, void*) { return -1; };
  Key key(PEM_read_bio_PrivateKey(Memory(pem).get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  return key;
}

CertificateRoles RolesOf(const X509* certificate) {
  CertificateRoles roles;
  const std::unique_ptr<GENERAL_NAMES, Freer<GENERAL_NAMES_free>> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const std::string_view uri(
        reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.uniformResourceIdentifier)),
        static_cast<size_t>(ASN1_STRING_length(name->d.uniformResourceIdentifier)));
    if (!uri.starts_with(kRolePrefix)) continue;
    if (const auto role = FindCertificateRole(uri.substr(kRolePrefix.size()))) roles.Add(*role);
  }
  return roles;
}

}  // namespace openssl

namespace {

namespace fs = std::filesystem;
using openssl::Certificate;
using openssl::Freer;
using openssl::Key;

// A certificate is valid from an hour ago, for hosts whose clocks are behind.
constexpr long kClockSlack = 60 * 60;

template <class Write>
std::string PemText(const Write& write) {
  const openssl::Bio bio(BIO_new(BIO_s_mem()));
  LEAT_CHECK(write(bio.get()) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<size_t>(size)};
}
std::string PemOf(X509* certificate) {
  return PemText([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}
std::string PemOf(EVP_PKEY* key) {
  return PemText(
      [&](BIO* bio) { return PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr); });
}

void AddExtension(X509* certificate, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Freer<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str()));
  LEAT_CHECK(extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1);
}

// A certificate without extensions and signature.
Certificate Begin(EVP_PKEY* key, const std::string& name, std::chrono::seconds valid) {
  Certificate certificate(X509_new());
  std::array<unsigned char, 16> serial;
  LEAT_CHECK(RAND_bytes(serial.data(), static_cast<int>(serial.size())) == 1);
  serial[0] &= 0x7f;
  const std::unique_ptr<BIGNUM, Freer<BN_free>> number(
      BN_bin2bn(serial.data(), static_cast<int>(serial.size()), nullptr));
  LEAT_CHECK(BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate.get())) != nullptr);
  LEAT_CHECK(X509_set_version(certificate.get(), X509_VERSION_3) == 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kClockSlack);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), valid.count());
  LEAT_CHECK(X509_set_pubkey(certificate.get(), key) == 1);
  LEAT_CHECK(X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
                                        reinterpret_cast<const unsigned char*>(name.data()),
                                        static_cast<int>(name.size()), -1, 0) == 1);
  return certificate;
}

// Letters, digits, '-' and '.', and "*." at the beginning. No other character reaches OpenSSL's syntax. A
// wildcard before a single part (*.com) matches nothing.
bool IsName(std::string_view host) {
  if (host.starts_with("*.")) {
    host.remove_prefix(2);
    if (host.find('.') == std::string_view::npos) return false;
  }
  return IsWord(host, 253, "-.") && !host.starts_with('.') && !host.ends_with('.');
}

// The subject alternative name in OpenSSL's syntax.
Result<std::string> AlternativeNames(const CertificateRequest& request) {
  std::string names;
  const auto add = [&](const std::string& name) { names += (names.empty() ? "" : ",") + name; };
  if (request.roles.empty()) return Status(Code::kInvalidArgument, "a certificate needs a role");
  for (const std::string& role : request.roles) {
    if (!FindCertificateRole(role)) {
      return Status(Code::kInvalidArgument, "unknown role '" + role + "' of a certificate; roles are " +
                                                CertificateRoles::All().ToString());
    }
    add("URI:" + std::string(openssl::kRolePrefix) + role);
  }
  for (const std::string& host : request.hosts) {
    if (!IsIpAddress(host) && !IsName(host)) {
      return Status(
          Code::kInvalidArgument,
          "'" + host + "' is neither a host name, a wildcard name (*.leat.example), nor an IP address");
    }
    // Leat connects to localhost by this address.
    add(host == "localhost" ? "IP:127.0.0.1" : (IsIpAddress(host) ? "IP:" : "DNS:") + host);
  }
  return names;
}

Status CheckNew(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error) || fs::is_empty(folder, error)) {
    if (!error) return {};
    return {Code::kPermissionDenied, "cannot create " + folder.string() + ": " + error.message()};
  }
  return {Code::kFailedPrecondition, folder.string() + " exists already and is not overwritten"};
}

using CertificateFiles = std::vector<std::pair<const char*, std::string>>;  // names and contents

// The folder gets its name when all files are in it.
Status CreateFolder(fs::path folder, const CertificateFiles& files) {
  LEAT_RETURN_IF_ERROR(CheckNew(folder));
  if (!folder.has_filename()) folder = folder.parent_path();  // "certificates/"
  LEAT_ASSIGN_OR_RETURN(const std::string absolute, AbsolutePath(folder.string()));
  const fs::path temporary = absolute + "." + RandomHex(8) + ".tmp";
  Status status;
  for (const auto& [name, content] : files) {
    if (status.ok()) status = CreatePrivateFile(temporary / name, content);
  }
  if (status.ok() && rename(temporary.c_str(), folder.c_str()) != 0) {
    status = errno == ENOTEMPTY || errno == EEXIST
                 ? CheckNew(folder)
                 : Status(Code::kPermissionDenied,
                          "cannot create " + folder.string() + ": " + std::strerror(errno));
  }
  std::error_code ignored;
  if (!status.ok()) fs::remove_all(temporary, ignored);
  return status;
}

// The certificate of an authority verifies that of a role.
Status Verify(X509* ca, X509* certificate, const std::string& file) {
  const std::unique_ptr<X509_STORE, Freer<X509_STORE_free>> store(X509_STORE_new());
  const std::unique_ptr<X509_STORE_CTX, Freer<X509_STORE_CTX_free>> context(X509_STORE_CTX_new());
  LEAT_CHECK(X509_STORE_add_cert(store.get(), ca) == 1);
  LEAT_CHECK(X509_STORE_CTX_init(context.get(), store.get(), certificate, nullptr) == 1);
  if (X509_verify_cert(context.get()) == 1) return {};
  const std::string why = X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
  ERR_clear_error();
  return {Code::kInvalidArgument, file + ": " + why};
}

bool Belongs(const X509* certificate, const EVP_PKEY* key) {
  const bool belongs = X509_check_private_key(certificate, key) == 1;
  ERR_clear_error();
  return belongs;
}

}  // namespace

Status CreateAuthority(const fs::path& folder, int valid_days) {
  const Key key(EVP_EC_gen("P-256"));
  const Certificate ca =
      Begin(key.get(), "Leat authority " + RandomHex(4), std::chrono::hours(24) * valid_days);
  LEAT_CHECK(X509_set_issuer_name(ca.get(), X509_get_subject_name(ca.get())) == 1);
  AddExtension(ca.get(), ca.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  AddExtension(ca.get(), ca.get(), NID_key_usage, "critical,keyCertSign");
  AddExtension(ca.get(), ca.get(), NID_subject_key_identifier, "hash");
  LEAT_CHECK(X509_sign(ca.get(), key.get(), EVP_sha256()) > 0);
  return CreateFolder(folder, {{"ca-key.pem", PemOf(key.get())}, {"ca.pem", PemOf(ca.get())}});
}

Status IssueCertificate(const fs::path& authority, const fs::path& folder,
                        const CertificateRequest& request) {
  LEAT_ASSIGN_OR_RETURN(const std::string alternative_names, AlternativeNames(request));
  LEAT_RETURN_IF_ERROR(CheckNew(folder));
  LEAT_ASSIGN_OR_RETURN(const std::string ca_key_pem, ReadPrivateFile(authority / "ca-key.pem"));
  LEAT_ASSIGN_OR_RETURN(const std::string ca_pem, ReadPublicFile(authority / "ca.pem"));
  const Key ca_key = openssl::ParseKey(ca_key_pem);
  const Certificate ca = openssl::ParseCertificate(ca_pem);
  if (ca_key == nullptr || ca == nullptr || !Belongs(ca.get(), ca_key.get()))
    return {Code::kInvalidArgument, authority.string() + ": ca.pem and ca-key.pem are no authority"};

  const Key key(EVP_EC_gen("P-256"));
  const Certificate certificate = Begin(key.get(), "Leat " + request.roles.front(), request.valid);
  LEAT_CHECK(X509_set_issuer_name(certificate.get(), X509_get_subject_name(ca.get())) == 1);
  AddExtension(certificate.get(), ca.get(), NID_basic_constraints, "critical,CA:FALSE");
  AddExtension(certificate.get(), ca.get(), NID_key_usage, "critical,digitalSignature");
  AddExtension(certificate.get(), ca.get(), NID_ext_key_usage, "serverAuth,clientAuth");
  AddExtension(certificate.get(), ca.get(), NID_authority_key_identifier, "keyid");
  AddExtension(certificate.get(), ca.get(), NID_subject_alt_name, alternative_names);
  LEAT_CHECK(X509_sign(certificate.get(), ca_key.get(), EVP_sha256()) > 0);
  return CreateFolder(
      folder, {{"ca.pem", ca_pem}, {"key.pem", PemOf(key.get())}, {"cert.pem", PemOf(certificate.get())}});
}

Result<int64_t> RenewalTime(std::string_view text) {
  const Certificate certificate = openssl::ParseCertificate(text);
  std::tm begin{}, end{};
  const bool known = certificate != nullptr &&
                     ASN1_TIME_to_tm(X509_get0_notBefore(certificate.get()), &begin) == 1 &&
                     ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) == 1;
  if (!known) return Status(Code::kInvalidArgument, "not a certificate in PEM");
  const int64_t issued = timegm(&begin) + kClockSlack, until = timegm(&end);
  return until - (until - issued) / 2;
}

Result<CertificateFolder> ReadCertificateFolder(const fs::path& folder) {
  const auto fail = [&folder](const char* name, const std::string& why) {
    return Status(Code::kInvalidArgument, (folder / name).string() + ": " + why);
  };
  CertificateFolder found;
  LEAT_ASSIGN_OR_RETURN(found.ca, ReadPublicFile(folder / "ca.pem"));
  LEAT_ASSIGN_OR_RETURN(found.certificate, ReadPublicFile(folder / "cert.pem"));
  LEAT_ASSIGN_OR_RETURN(found.key, ReadPrivateFile(folder / "key.pem"));
  const Certificate ca = openssl::ParseCertificate(found.ca);
  if (ca == nullptr) return fail("ca.pem", "not a certificate in PEM");
  const Certificate certificate = openssl::ParseCertificate(found.certificate);
  if (certificate == nullptr) return fail("cert.pem", "not a certificate in PEM");
  const Key key = openssl::ParseKey(found.key);
  if (key == nullptr) return fail("key.pem", "not a key without a password in PEM");
  if (!Belongs(certificate.get(), key.get())) return fail("key.pem", "not the key of cert.pem");
  LEAT_RETURN_IF_ERROR(Verify(ca.get(), certificate.get(), (folder / "cert.pem").string()));
  found.roles = openssl::RolesOf(certificate.get());
  if (found.roles.empty()) return fail("cert.pem", "the certificate names no role of Leat");
  return found;
}

}  // namespace leat::net
