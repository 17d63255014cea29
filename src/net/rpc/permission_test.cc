#include "net/rpc/codec.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace leat::control {
namespace {

using net::CertificateRole;
using net::CertificateRoles;

struct Case {
  protocol::ControlRequest request;
  CertificateRoles allowed;
};

protocol::JoinRequest Join(protocol::Role role) {
  protocol::JoinRequest join;
  join.role = role;
  return join;
}

TEST(Permission, EachRoleActsAsItself) {
  const CertificateRoles members{CertificateRole::kWorker, CertificateRole::kServer, CertificateRole::kBots,
                                 CertificateRole::kFeed, CertificateRole::kServe};
  CertificateRoles members_and_standbys = members;
  members_and_standbys.Add(CertificateRole::kCoordinator);
  std::vector<Case> cases = {
      {Join(protocol::Role::kWorker), {CertificateRole::kWorker}},
      {Join(protocol::Role::kServer), {CertificateRole::kServer}},
      {Join(protocol::Role::kBots), {CertificateRole::kBots}},
      {Join(protocol::Role::kFeed), {CertificateRole::kFeed}},
      {Join(protocol::Role::kServe), {CertificateRole::kServe}},
      {Join(protocol::Role::kCoordinator), {CertificateRole::kCoordinator}},
      {protocol::WorkerHeartbeat{}, {CertificateRole::kWorker}},
      {protocol::ServerHeartbeat{}, {CertificateRole::kServer}},
      {protocol::BotsHeartbeat{}, {CertificateRole::kBots}},
      {protocol::FeedHeartbeat{}, {CertificateRole::kFeed}},
      {protocol::ServeHeartbeat{}, {CertificateRole::kServe}},
      {protocol::KeepAlive{}, members_and_standbys},
      {protocol::JobRequest{}, members},
      {protocol::Promise{}, {CertificateRole::kServer, CertificateRole::kWorker}},
      {protocol::FollowRequest{}, {CertificateRole::kCoordinator}},
      {protocol::SpansRequest{}, {CertificateRole::kServer, CertificateRole::kWorker}},
      {protocol::TimelineRequest{}, {CertificateRole::kAdmin}},
      {protocol::StatusRequest{}, CertificateRoles::All()},
  };
  using PoolKind = protocol::PoolRequest::Kind;
  cases.push_back(
      {protocol::AdminRequest{.kind = protocol::AdminRequest::Kind::kGrant}, {CertificateRole::kPool}});
  for (const auto kind : {protocol::AdminRequest::Kind::kStop, protocol::AdminRequest::Kind::kDiscard})
    cases.push_back(
        {protocol::AdminRequest{.kind = kind}, {CertificateRole::kAdmin, CertificateRole::kPool}});
  cases.push_back({protocol::PoolRequest{.kind = PoolKind::kReport}, {CertificateRole::kAgent}});
  cases.push_back({protocol::PoolRequest{.kind = PoolKind::kList}, CertificateRoles::All()});
  for (const auto kind : {PoolKind::kSubmit, PoolKind::kCancel, PoolKind::kAccess})
    cases.push_back({protocol::PoolRequest{.kind = kind}, {CertificateRole::kAdmin}});
  for (const auto kind : {protocol::AdminRequest::Kind::kCheckpoint, protocol::AdminRequest::Kind::kContinue,
                          protocol::AdminRequest::Kind::kNodeLost, protocol::AdminRequest::Kind::kScale,
                          protocol::AdminRequest::Kind::kDrain, protocol::AdminRequest::Kind::kPause})
    cases.push_back({protocol::AdminRequest{.kind = kind}, {CertificateRole::kAdmin}});
  for (size_t i = 0; i < cases.size(); ++i) {
    for (const std::string_view name : net::kCertificateRoleNames) {
      const CertificateRole role = *net::FindCertificateRole(name);
      EXPECT_EQ(CheckPermission({role}, cases[i].request).ok(), cases[i].allowed.Has(role)) << i << name;
    }
  }
}

TEST(Permission, TheReasonNamesBothRoles) {
  const Status status = CheckPermission({CertificateRole::kWorker},
                                        protocol::AdminRequest{.kind = protocol::AdminRequest::Kind::kScale});
  EXPECT_EQ(status.code(), Code::kPermissionDenied);
  EXPECT_EQ(status.message(), "the certificate is for the role worker, this needs one for admin");
}

}  // namespace
}  // namespace leat::control
