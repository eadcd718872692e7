"""Hosts of known platforms. They do not run software that has many instances, such as Mastodon or GitLab.

Without this table, their URLs would be treated as URLs of possible instances: `x.com/@a` looks like an account on a
Mastodon server. Hosts that a platform of this program declares are looked up before this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_TABLE: Final = """
9GAG: 9gag.com
Airbnb: airbnb.com
Al Jazeera: aljazeera.com
AliExpress: aliexpress.com
Amazon: amazon.ae amazon.ca amazon.cn amazon.co.jp amazon.co.uk amazon.com amazon.com.au amazon.com.br amazon.com.mx
Amazon: amazon.de amazon.es amazon.fr amazon.in amazon.it amazon.nl amazon.pl amazon.se
AP News: apnews.com
Apple: apple.com
Ars Technica: arstechnica.com
arXiv: arxiv.org
Axios: axios.com
Baidu: baidu.com
Bandcamp: bandcamp.com
BBC: bbc.co.uk bbc.com
Behance: behance.net
BeReal: bereal.com
Bilibili: b23.tv bilibili.com
Bitbucket: bitbucket.org
BitChute: bitchute.com
Blogger: blogger.com
Bloomberg: bloomberg.com
Booking.com: booking.com
Business Insider: businessinsider.com
BuzzFeed: buzzfeed.com
CBS News: cbsnews.com
Clubhouse: clubhouse.com
CNBC: cnbc.com
CNET: cnet.com
CNN: cnn.com
Codeberg: codeberg.org
crates.io: crates.io
Crunchbase: crunchbase.com
Daily Mail: dailymail.co.uk
Dailymotion: dai.ly dailymotion.com
Deezer: deezer.com
Der Spiegel: spiegel.de
DEV: dev.to
DeviantArt: deviantart.com
Discord: discord.com discord.gg discordapp.com
Docker Hub: hub.docker.com
Douban: douban.com
Douyin: douyin.com
Dribbble: dribbble.com
eBay: ebay.co.uk ebay.com ebay.de ebay.fr
El País: elpais.com
ESPN: espn.com
Etsy: etsy.com
Eventbrite: eventbrite.com
Facebook: facebook.com fb.com messenger.com
Figma: figma.com
Financial Times: ft.com
Flickr: flickr.com
Forbes: forbes.com
Fox News: foxnews.com
Giphy: giphy.com
Glassdoor: glassdoor.com
Goodreads: goodreads.com
Google: docs.google.com drive.google.com google.com maps.google.com news.google.com play.google.com
Hugging Face: huggingface.co
IMDb: imdb.com
Imgur: imgur.com
Indeed: indeed.com
Independent: independent.co.uk
Instagram: instagram.com
Kaggle: kaggle.com
KakaoTalk: kakao.com
Kick: kick.com
Kickstarter: kickstarter.com
Ko-fi: ko-fi.com
Kuaishou: kuaishou.com
Last.fm: last.fm
Le Monde: lemonde.fr
Lemon8: lemon8-app.com
Letterboxd: letterboxd.com
LINE: line.me
LinkedIn: linkedin.com
Linktree: linktr.ee
LiveJournal: livejournal.com
Los Angeles Times: latimes.com
Mashable: mashable.com
Medium: medium.com
Meetup: meetup.com
Microsoft: bing.com microsoft.com
Mixcloud: mixcloud.com
MSN: msn.com
Naver: naver.com
NBC News: nbcnews.com
Netflix: netflix.com
New York Post: nypost.com
Nextdoor: nextdoor.com
Niconico: nicovideo.jp
Notion: notion.so
NPR: npr.org
Odnoklassniki: ok.ru
Odysee: odysee.com
OnlyFans: onlyfans.com
Patreon: patreon.com
Pinterest: pinterest.at pinterest.ca pinterest.ch pinterest.co.uk pinterest.com pinterest.com.au pinterest.com.mx
Pinterest: pinterest.de pinterest.es pinterest.fr pinterest.it pinterest.jp pinterest.pt
Pixiv: pixiv.net
Politico: politico.com politico.eu
Product Hunt: producthunt.com
Quora: quora.com
Reddit: reddit.com
Reuters: reuters.com
Rumble: rumble.com
RuTube: rutube.ru
SHEIN: shein.com
Slack: slack.com
SlideShare: slideshare.net
Snapchat: snapchat.com
SoundCloud: soundcloud.com
SourceForge: sourceforge.net
SourceHut: sr.ht
Spotify: spotify.com
Substack: substack.com
TechCrunch: techcrunch.com
Temu: temu.com
The Atlantic: theatlantic.com
The Economist: economist.com
The Guardian: theguardian.com
The New York Times: nytimes.com
The New Yorker: newyorker.com
The Telegraph: telegraph.co.uk
The Verge: theverge.com
The Wall Street Journal: wsj.com
The Washington Post: washingtonpost.com
Threads: threads.com threads.net
Tidal: tidal.com
TikTok: tiktok.com
TIME: time.com
Toutiao: toutiao.com
Trello: trello.com
Tripadvisor: tripadvisor.co.uk tripadvisor.com
Trustpilot: trustpilot.com
Tumblr: tumblr.com
Twitch: twitch.tv
USA Today: usatoday.com
Vimeo: vimeo.com
VK: vk.com vk.ru vkvideo.ru
Vox: vox.com
Walmart: walmart.com
WeChat: wechat.com weixin.qq.com
Weibo: weibo.cn weibo.com
WhatsApp: wa.me whatsapp.com
Wired: wired.com
WordPress.com: wordpress.com
X: twitter.com x.com
Xiaohongshu: xhslink.com xiaohongshu.com
XING: xing.com
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

_SERVERS: Final = frozenset(
    ("devtalk.kakao.com", "discuss.dev.twitch.tv", "discuss.huggingface.co", "forum.figma.com", "support.last.fm")
)
"""Hosts below a known host that do run forum software."""


def owner_of(host: str) -> str | None:
    """Return the platform of a host; None if it is not in the table. The host must be in lower case."""
    if host in _SERVERS:
        return None
    while host:
        if (owner := KNOWN_HOSTS.get(host)) is not None:
            return owner
        host = host.partition(".")[2]
    return None
