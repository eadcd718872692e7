"""GraphQL queries to GitHub. They rename fields to the names in the REST API, where it has the same fields."""

from __future__ import annotations

import re
from collections.abc import Mapping

_ACTOR = """
  login avatar_url: avatarUrl html_url: url type: __typename
  ... on User { id: databaseId }
  ... on Bot { id: databaseId }
"""

_PROFILE_FIELDS = """
  type: __typename login avatar_url: avatarUrl html_url: url
  ... on User {
    id: databaseId name bio company location blog: websiteUrl
    twitter_username: twitterUsername created_at: createdAt
    followers { totalCount }
    following { totalCount }
    public_repos: repositories(privacy: PUBLIC, ownerAffiliations: OWNER) { totalCount }
    public_gists: gists(privacy: PUBLIC) { totalCount }
  }
  ... on Organization {
    id: databaseId name bio: description location blog: websiteUrl
    twitter_username: twitterUsername created_at: createdAt
    public_repos: repositories(privacy: PUBLIC, ownerAffiliations: OWNER) { totalCount }
  }
"""

PROFILE = f"query ($login: String!) {{ user: repositoryOwner(login: $login) {{ {_PROFILE_FIELDS} }} }}"

REPOSITORY = """
query ($owner: String!, $name: String!) {
  repository(owner: $owner, name: $name) {
    id: databaseId name full_name: nameWithOwner html_url: url description homepage: homepageUrl
    owner { login avatar_url: avatarUrl type: __typename }
    language: primaryLanguage { name }
    topics: repositoryTopics(first: 20) { nodes { topic { name } } }
    license: licenseInfo { spdx_id: spdxId }
    stargazers_count: stargazerCount forks_count: forkCount
    subscribers_count: watchers { totalCount }
    issues(states: OPEN) { totalCount }
    pullRequests(states: OPEN) { totalCount }
    size: diskUsage default_branch: defaultBranchRef { name }
    archived: isArchived fork: isFork
    created_at: createdAt updated_at: updatedAt pushed_at: pushedAt
  }
}
"""

RELEASES = """
query ($owner: String!, $name: String!, $first: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    releases(first: $first, after: $after, orderBy: {field: CREATED_AT, direction: DESC}) {
      nodes {
        id: databaseId html_url: url tag_name: tagName name body: description
        prerelease: isPrerelease published_at: publishedAt
        author { login }
        assets: releaseAssets(first: 100) { totalCount nodes { download_count: downloadCount } }
      }
      pageInfo { hasNextPage endCursor }
    }
  }
}
"""

_ISSUE_FIELDS = f"""
  number title body html_url: url created_at: createdAt closed_at: closedAt
  user: author {{ {_ACTOR} }}
  labels(first: 100) {{ nodes {{ name }} }}
  comments {{ totalCount }}
  reactions {{ totalCount }}
"""

_NUMBERED = f"""
  issue: issueOrPullRequest(number: $number) {{
    type: __typename
    ... on Issue {{ {_ISSUE_FIELDS} id: databaseId state state_reason: stateReason }}
    ... on PullRequest {{ {_ISSUE_FIELDS} pull_state: state }}
  }}
"""
ISSUE = f"""
query ($owner: String!, $name: String!, $number: Int!) {{
  repository(owner: $owner, name: $name) {{ {_NUMBERED} }}
}}
"""


def profiles(count: int) -> str:
    """Return the query for this many accounts. Its field `one_0` uses the variable `login_0`, and so on."""
    return _several(count, {"login": "String!"}, f"repositoryOwner(login: $login) {{ {_PROFILE_FIELDS} }}")


def issues(count: int) -> str:
    """Return the query for this many issues.

    Its field `one_0` uses the variables `owner_0`, `name_0` and `number_0`.
    """
    types = {"owner": "String!", "name": "String!", "number": "Int!"}
    return _several(count, types, f"repository(owner: $owner, name: $name) {{ {_NUMBERED} }}")


def _several(count: int, types: Mapping[str, str], field: str) -> str:
    """Return a query that contains a field this many times, each with variables of its own."""
    declared = ", ".join(f"${name}_{place}: {type_}" for place in range(count) for name, type_ in types.items())
    fields = (f"one_{place}: " + re.sub(r"\$\w+", rf"\g<0>_{place}", field) for place in range(count))
    return f"query ({declared}) {{ {' '.join(fields)} }}"
