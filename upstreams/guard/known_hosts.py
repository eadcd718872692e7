"""Hosts of known platforms, which do not run software with many instances, such as Mastodon or GitLab.

Without this table, their URLs would be tried as instances: `x.com/@a` looks like an account on a Mastodon server. Hosts
that a platform of this program declares are looked up before this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_TABLE: Final = """
Airbnb: airbnb.com
AliExpress: aliexpress.com
Amazon: amazon.ae amazon.ca amazon.cn amazon.co.jp amazon.co.uk amazon.com amazon.com.au amazon.com.br amazon.com.mx
Amazon: amazon.de amazon.es amazon.fr amazon.in amazon.it amazon.nl amazon.pl amazon.se
AP News: apnews.com
Apple: music.apple.com podcasts.apple.com
arXiv: arxiv.org
Baidu: baidu.com
Bandcamp: bandcamp.com
BBC: bbc.co.uk bbc.com
BeReal: bereal.com
Bilibili: b23.tv bilibili.com
Bitbucket: bitbucket.org
Blogger: blogger.com
Bloomberg: bloomberg.com
Booking.com: booking.com
Business Insider: businessinsider.com
Clubhouse: clubhouse.com
CNN: cnn.com
Codeberg: codeberg.org
crates.io: crates.io
Crunchbase: crunchbase.com
Dailymotion: dai.ly dailymotion.com
Deezer: deezer.com
DEV: dev.to
Discord: discord.com discord.gg discordapp.com
Docker Hub: hub.docker.com
Douyin: douyin.com
eBay: ebay.co.uk ebay.com ebay.de ebay.fr
Etsy: etsy.com
Facebook: facebook.com fb.com messenger.com
Figma: figma.com
Financial Times: ft.com
Flickr: flickr.com
Forbes: forbes.com
Glassdoor: glassdoor.com
Goodreads: goodreads.com
Google: docs.google.com drive.google.com google.com maps.google.com news.google.com play.google.com
Hugging Face: huggingface.co
IMDb: imdb.com
Indeed: indeed.com
Instagram: instagram.com
Kaggle: kaggle.com
KakaoTalk: kakao.com
Kick: kick.com
Kickstarter: kickstarter.com
Kuaishou: kuaishou.com
Letterboxd: letterboxd.com
LINE: line.me
Linktree: linktr.ee
LinkedIn: linkedin.com
Medium: medium.com
Microsoft: bing.com microsoft.com
MSN: msn.com
Naver: naver.com
NBC News: nbcnews.com
Nextdoor: nextdoor.com
Notion: notion.so
NPR: npr.org
npm: npmjs.com
Odnoklassniki: ok.ru
Odysee: odysee.com
OnlyFans: onlyfans.com
Patreon: patreon.com
Pinterest: pinterest.at pinterest.ca pinterest.ch pinterest.co.uk pinterest.com pinterest.com.au pinterest.com.mx
Pinterest: pinterest.de pinterest.es pinterest.fr pinterest.it pinterest.jp pinterest.pt
Product Hunt: producthunt.com
PyPI: pypi.org
Quora: quora.com
Reddit: reddit.com
Reuters: reuters.com
Rumble: rumble.com
Slack: slack.com
SlideShare: slideshare.net
Snapchat: snapchat.com
SoundCloud: soundcloud.com
SourceForge: sourceforge.net
SourceHut: sr.ht
Spotify: spotify.com
Substack: substack.com
TechCrunch: techcrunch.com
The Economist: economist.com
The Guardian: theguardian.com
The New York Times: nytimes.com
The Verge: theverge.com
The Wall Street Journal: wsj.com
The Washington Post: washingtonpost.com
Threads: threads.com threads.net
Tidal: tidal.com
TikTok: tiktok.com
Toutiao: toutiao.com
Trello: trello.com
Tripadvisor: tripadvisor.co.uk tripadvisor.com
Trustpilot: trustpilot.com
Tumblr: tumblr.com
Twitch: twitch.tv
USA Today: usatoday.com
Vimeo: vimeo.com
VK: vk.com vk.ru vkvideo.ru
WeChat: wechat.com weixin.qq.com
Weibo: weibo.cn weibo.com
WhatsApp: wa.me whatsapp.com
Wired: wired.com
X: twitter.com x.com
Xiaohongshu: xhslink.com xiaohongshu.com
Yahoo: yahoo.co.jp yahoo.com
Yelp: yelp.com
YouTube: youtu.be youtube.com youtube-nocookie.com
Zhihu: zhihu.com
"""
KNOWN_HOSTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        host: owner
        for owner, _, hosts in (line.partition(": ") for line in _TABLE.strip().splitlines())
        for host in hosts.split()
    }
)
"""Platform names by host; subdomains are included."""


def owner_of(host: str) -> str | None:
    """Return the platform of a host in lower case; None if it is not in the table."""
    while host:
        if (owner := KNOWN_HOSTS.get(host)) is not None:
            return owner
        host = host.partition(".")[2]
    return None
