#!/usr/bin/env bash
# Makes the small files beside this script, with ImageMagick 6, ffmpeg, cjpeg of libjpeg-turbo, exiftool, zstd fonttools and libtiff of
# Python. The tests need no tool: the files are part of the repository.
set -euo pipefail
cd "$(dirname "$0")"
convert -size 24x17 gradient:red-blue \( -size 24x17 radial-gradient:white-black \) -compose multiply -composite \
  -fill yellow -draw 'circle 12,8 12,3' -alpha off -type TrueColor -depth 8 -strip PNG24:base.png
convert base.png \( -size 24x17 gradient: \) -compose CopyOpacity -composite -depth 8 -strip PNG32:alpha.png
convert base.png -quality 95 -sampling-factor 1x1 plain.jpg
convert base.png -quality 90 -interlace Plane progressive.jpg
convert base.png -colorspace CMYK -quality 95 cmyk.jpg
convert base.png -quality 95 turned.jpg && exiftool -q -overwrite_original -Orientation#=6 -Make=DMV -Model='DMV One' \
  -ExposureTime=1/125 -FNumber=2.8 -ISO=200 turned.jpg
convert -size 24x17 -depth 16 gradient:red-blue -blur 0x2 -strip PNG48:deep.png
convert base.png -colors 9 palette.png
convert base.png grey.gif
convert base.png \( base.png -flip \) -delay 10 moving.gif
convert base.png -quality 80 lossy.webp
convert alpha.png -define webp:lossless=true lossless.webp
convert base.png plain.bmp
convert base.png -compress RLE packed.tga
convert base.png -compress LZW lzw.tif
convert deep.png -depth 16 -compress Zip deep.tif
convert base.png TIFF64:big.tif
convert base.png -colors 9 -type Palette -compress LZW indexed.tif
convert base.png -colorspace YCbCr ycbcr.tif
# Floating point is linear light.
convert base.png -colorspace RGB -depth 32 -define quantum:format=floating-point float.tif
convert base.png -interlace plane -define tiff:tile-geometry=16x16 planes.tif
convert alpha.png -define tiff:tile-geometry=16x16 -compress Zip tiles.tif
convert base.png -monochrome -compress Group4 fax.tif
convert base.png -compress JPEG -quality 95 jpeg.tif
convert base.png plain.ppm
convert base.png -compress none -colorspace Gray grey.pgm
convert alpha.png plain.ico
convert base.png -compress dxt1 blocks1.dds
convert alpha.png -compress dxt5 blocks5.dds
convert alpha.png -compress none plain.dds
convert base.png light.hdr
convert base.png -type TrueColor plain.psd
convert deep.png -type TrueColor -depth 16 -compress None deep.psd
convert base.png -type TrueColor \( alpha.png -set label top -type TrueColorAlpha \) layers.psd
convert base.png -type TrueColor psb:large.psb
ffmpeg -hide_banner -loglevel error -y -i base.png quick.qoi
for how in none rle zip1 zip16; do
  ffmpeg -hide_banner -loglevel error -y -i base.png -pix_fmt gbrpf32le -compression $how -format half $how.exr
done
sound() { ffmpeg -hide_banner -loglevel error -y -f lavfi -i 'aevalsrc=0.8*sin(2*PI*440*t)*t*10|0.3*sin(2*PI*880*t):s=8000:d=0.1' "$@"; }
sound -fflags +bitexact plain.wav
sound -c:a pcm_s24be plain.aiff
sound -c:a flac plain.flac
sound -b:a 32k plain.mp3
sound -c:a aac plain.m4a
sound -c:a alac -ar 8000 lossless.m4a
sound -c:a aac -f adts plain.aac
sound -c:a libvorbis plain.ogg
python3 make.py
# What the tools themselves see.
shopt -s extglob
for file in !(blocks-*).jpg *.png *.gif *.webp *.bmp *.tga *.tif *.dds *.ico *.p[gp]m *.hdr *.psd *.psb; do
  convert "$file[0]" -auto-orient -depth 8 "RGBA:$file.rgba"
done
# ImageMagick takes linear light and the light of Lab for another one, and does not turn this WebP.
tiff2rgba -c none shared.tif plain.tif && convert plain.tif -depth 8 RGBA:shared.tif.rgba && rm plain.tif
cp base.png.rgba float.tif.rgba
cp base.png.rgba lab.tif.rgba
convert lossy.webp -rotate 90 -depth 8 RGBA:turned.webp.rgba
for file in *.exr; do
  ffmpeg -hide_banner -loglevel error -y -apply_trc iec61966_2_1 -i "$file" -f rawvideo -pix_fmt rgba "$file.rgba"
done
# JPEGs of more than one block, with each sampling of colours, and with restart markers.
ffmpeg -hide_banner -loglevel error -y -f lavfi -i gradients=s=125x97:r=1:n=4:seed=3 -vf noise=c0s=12:c0f=u:all_seed=5,format=rgb24 -frames:v 1 blocks.ppm
for how in 420:2x2 422:2x1 440:1x2 444:1x1; do cjpeg -quality 90 -sample ${how#*:} -outfile blocks-${how%:*}.jpg blocks.ppm; done
cjpeg -quality 90 -grayscale -outfile blocks-grey.jpg blocks.ppm
cjpeg -quality 90 -restart 3B -outfile blocks-restart.jpg blocks.ppm
rm blocks.ppm
